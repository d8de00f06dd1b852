"""Check an ONNX file before onnxruntime opens it: that it is intact, and that it only computes.

An ONNX file is a message in the format of protocol buffers. It is read here without the package onnx, because importing
that takes longer than importing onnxruntime.
"""

import hashlib
from collections.abc import Iterator

from gaussproto.errors import InputError

CHECKSUM = b"sha256"
LENGTHS = {1: 8, 5: 4}  # of numbers with a fixed size, by the kind of field
TEXT, VARINT = 2, 0  # kinds of fields
# The numbers of the fields that lead to nodes, attributes and tensors, and of what is not allowed in them.
GRAPH, FUNCTIONS = 7, 25  # of a model
NODE, INITIALIZER, SPARSE = 1, 5, 15  # of a graph
ATTRIBUTE, DOMAIN, OPERATOR = 5, 7, 4  # of a node
TENSOR, TENSORS, SUBGRAPH, SUBGRAPHS = 5, 10, 6, 11  # of an attribute
SPARSE_TENSORS = (22, 23)
# Operators that compute numbers from numbers: no loops, no random numbers, nothing that makes an array of any size.
OPERATORS = frozenset(
    """
    Abs Add AveragePool BatchNormalization Cast Ceil Clip Concat Conv Cos Div Elu Erf Exp Flatten Floor Gather Gelu Gemm
    GlobalAveragePool GlobalMaxPool HardSigmoid HardSwish Identity LeakyRelu Log MatMul Max MaxPool Mean Min Mish Mul
    Neg Pad Pow PRelu Reciprocal ReduceL2 ReduceMax ReduceMean ReduceMin ReduceSum ReduceSumSquare Relu Reshape Selu
    Shape Sigmoid Sign Sin Slice Softmax Softplus Softsign Split Sqrt Squeeze Sub Sum Tanh Transpose Unsqueeze Where
    """.split()  # noqa: SIM905
)
# Operators of other libraries' image models. Some make arrays of any size, so gaussproto's own files must not use them.
MODEL_OPERATORS = OPERATORS | frozenset(
    """
    And Constant ConstantOfShape DepthToSpace Einsum Equal Expand Greater GreaterOrEqual GroupNormalization
    InstanceNormalization LayerNormalization Less LessOrEqual Mod Not Or Range ReduceProd Resize Size SpaceToDepth
    Tile Trilu
    """.split()  # noqa: SIM905
)
CARD = b"gaussproto"  # the key of the metadata that only gaussproto's own files have
METADATA = 14  # of a model
EXTERNAL_DATA = 13  # of a tensor


def with_checksum(content: bytes) -> bytes:
    """Append the checksum of a file to it, as one more entry of its metadata."""
    return content + _checksum(memoryview(content))


def _checksum(content: memoryview) -> bytes:
    value = hashlib.sha256(content).hexdigest().encode()
    entry = b"\x0a" + bytes([len(CHECKSUM)]) + CHECKSUM + b"\x12" + bytes([len(value)]) + value
    return b"\x72" + bytes([len(entry)]) + entry  # 0x72 begins an entry of a model's metadata


LENGTH = len(_checksum(memoryview(b"")))


def check_intact(content: bytes, name: str) -> bool:
    """Raise InputError if the file has changed since it was exported. Return False if it has no checksum."""
    if content[-LENGTH:] == _checksum(memoryview(content)[:-LENGTH]):
        return True
    if CHECKSUM in content[-2 * LENGTH :]:
        raise InputError(f"{name} is a damaged ONNX file (its checksum does not match): export it again")
    return False


def check_safe(content: bytes, name: str) -> None:
    """Raise InputError if the file could loop for ever, read other files or run unknown operators."""
    try:
        problem = next(_problems(memoryview(content)), None)
    except (IndexError, ValueError, UnicodeDecodeError):
        raise InputError(f"{name} is not a readable ONNX file: export it again") from None
    if problem:
        raise InputError(f"{name} contains {problem}, which is not allowed: use a file from `gaussproto export`")


def _problems(model: memoryview) -> Iterator[str]:
    own = any(number == METADATA and CARD in bytes(field[:64]) for number, field in _fields(model))
    allowed = OPERATORS if own else MODEL_OPERATORS
    for number, field in _fields(model):
        if number == FUNCTIONS:
            yield "functions"
        if number == GRAPH:
            for part, inner in _fields(field):
                if part == NODE:
                    yield from _node_problems(inner, allowed)
                elif part == SPARSE or (part == INITIALIZER and _is_external(inner)):
                    yield "sparse weights" if part == SPARSE else "weights in another file"


def _node_problems(node: memoryview, allowed: frozenset[str]) -> Iterator[str]:
    fields = list(_fields(node))
    kind = b"".join(field for number, field in fields if number == OPERATOR).decode()
    for number, field in fields:
        if number == DOMAIN and bytes(field) not in (b"", b"ai.onnx"):
            yield f"the operator {kind} of the domain {bytes(field).decode()}"
        if number == ATTRIBUTE:
            for part, inner in _fields(field):
                if part in (SUBGRAPH, SUBGRAPHS):
                    yield f"the operator {kind} with an inner graph"
                if part in SPARSE_TENSORS:
                    yield "sparse weights"
                if part in (TENSOR, TENSORS) and _is_external(inner):
                    yield "weights in another file"
    if kind not in allowed:
        yield f"the operator {kind}"


def _is_external(tensor: memoryview) -> bool:
    return any(number == EXTERNAL_DATA for number, _ in _fields(tensor))


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield the number and the content of every field. The content of a number is empty."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind, length = tag & 7, 0
        if kind == VARINT:
            _, at = _varint(message, at)
        elif kind == TEXT:
            length, at = _varint(message, at)
        elif kind in LENGTHS:
            length = LENGTHS[kind]
        else:
            raise ValueError(f"unknown kind of field {kind}")
        if at + length > len(message):
            raise ValueError("a field is longer than its message")
        yield tag >> 3, message[at : at + length] if kind == TEXT else message[:0]
        at += length


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
        if shift > 63:
            raise ValueError("a number is too long")
