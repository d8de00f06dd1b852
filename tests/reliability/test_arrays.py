"""Safetensors files: what is written comes back, any change is noticed, and files of before still load."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as of_numpy
from safetensors.numpy import load_file, save_file

import gaussproto as gp
from gaussproto.arrays import digest_of_arrays, read_arrays, write_arrays
from gaussproto.errors import InputError
from gaussproto.runs.weights import open_weights

DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")
SHAPES = of_numpy.array_shapes(min_dims=0, min_side=0)
ARRAYS = st.dictionaries(
    st.text(min_size=1, max_size=5).filter(lambda name: name != "__metadata__"),
    st.sampled_from(DTYPES).flatmap(lambda dtype: of_numpy.arrays(dtype, SHAPES)),
    max_size=4,
)


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@given(arrays=ARRAYS, metadata=st.dictionaries(st.text(), st.text(), max_size=3))
@settings(deadline=None, max_examples=60)
def test_arrays_come_back_here_and_in_the_library(tmp_path_factory, arrays, metadata):
    metadata.pop("checksum", None)
    path = tmp_path_factory.mktemp("arrays") / "it.safetensors"
    write_arrays(path, arrays, metadata)
    file = read_arrays(path, "file")
    assert file.checked
    assert file.metadata == metadata
    assert set(file.arrays) == set(arrays)
    for read in (file.arrays, load_file(path)):
        assert all(same(read[name], arrays[name]) for name in arrays)


def test_tensors_come_back_whatever_their_layout(tmp_path):
    tensors = {
        "scalar": torch.tensor(3.5),
        "half": torch.randn(3).bfloat16(),
        "empty": torch.zeros(0, 4),
        "learned": torch.nn.Parameter(torch.randn(2, 3)),
        "turned": torch.randn(4, 3).T,
    }
    write_arrays(tmp_path / "it", tensors, {})
    read = read_arrays(tmp_path / "it", "file", "pt").arrays
    assert all(torch.equal(read[name], tensor) and read[name].dtype == tensor.dtype for name, tensor in tensors.items())


def test_every_bit_counts(tmp_path):
    """Of a small file, flip every bit: the file is refused, or it says the same."""
    path = tmp_path / "it"
    arrays = {"a": np.arange(3, dtype=np.float32), "b": np.array([[1], [2]], dtype=np.int8)}
    write_arrays(path, arrays, {"text": "hello"})
    content = path.read_bytes()
    unnoticed = 0
    for i in range(8 * len(content)):
        changed = bytearray(content)
        changed[i // 8] ^= 1 << i % 8
        path.write_bytes(changed)
        try:
            file = read_arrays(path, "file")
        except InputError:
            continue
        unnoticed += 1
        assert not file.checked or file.metadata == {"text": "hello"}
        assert all(same(file.arrays[name], arrays[name]) for name in arrays)
    assert unnoticed < 80  # the name of the checksum: the file then looks like one of an earlier version, which is said


def test_a_file_whose_header_asks_for_more_than_it_has_is_refused(tmp_path):
    for shape, offsets in (([10**12], [0, 4 * 10**12]), ([2**62, 4], [0, 0]), ([-1], [0, 4]), ([1], [4, 0])):
        header = json.dumps({"a": {"dtype": "F32", "shape": shape, "data_offsets": offsets}}).encode()
        (tmp_path / "it").write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
        with pytest.raises(InputError, match="is not a readable file"):
            read_arrays(tmp_path / "it", "file")
    for text in (b'{"a": {"data_offsets": [0]}}', b'{"a": []}', b"[]", b'{"a": {"data_offsets": "xy"}}', b"[" * 5000):
        (tmp_path / "it").write_bytes(len(text).to_bytes(8, "little") + text + bytes(8))
        with pytest.raises(InputError, match="is not a readable file"):
            read_arrays(tmp_path / "it", "file")
    (tmp_path / "it").write_bytes((2**60).to_bytes(8, "little") + b"{}")
    with pytest.raises(InputError, match=r"it is not a file$"):
        read_arrays(tmp_path / "it", "file")


def test_weights_of_before_load_and_say_that_they_have_no_checksum(weights, tmp_path):
    file = read_arrays(weights, "weights file")
    save_file(file.arrays, tmp_path / "old.safetensors", file.metadata)
    with pytest.warns(UserWarning, match=r"old\.safetensors has no checksum, because an earlier version") as said:
        network = gp.load_network(tmp_path / "old.safetensors")
    assert len(said) == 1
    new = gp.load_network(weights).state_dict()
    assert all(torch.equal(new[name], value) for name, value in network.state_dict().items())


def test_galleries_of_before_load_and_their_checksum_counts(tmp_path):
    clf = gp.GaussianPrototypeClassifier("identity").fit([[0.0, 1.0], [2.0, 3.0]], ["a", "b"])
    clf.save(tmp_path / "new.gallery")
    file = read_arrays(tmp_path / "new.gallery", "gallery")
    ((key, header),) = file.metadata.items()
    old = {key: header, "sha256": digest_of_arrays(header, file.arrays)}
    save_file(file.arrays, tmp_path / "old.gallery", old)
    assert gp.load(tmp_path / "old.gallery").predict([[2.0, 2.0]]).tolist() == ["b"]
    file.arrays["embeddings"][0, 0] += 1
    save_file(file.arrays, tmp_path / "bad.gallery", old)
    with pytest.raises(InputError, match="is a damaged gallery"):
        gp.load(tmp_path / "bad.gallery")


def test_bundled_weights_are_checked_without_a_word(recwarn):
    assert gp.load_network("drawings-small").config == gp.preset("drawings-small").network
    assert not recwarn.list


def test_a_checkpoint_that_asks_for_a_huge_network_takes_no_memory(weights, tmp_path):
    file = read_arrays(weights, "weights file")
    config = json.loads(file.metadata["config"])
    config["network"] |= {"embedding_dim": 65536, "filters": [65536] * 8}
    config["data"]["image_size"] = 1024
    write_arrays(tmp_path / "huge.safetensors", file.arrays, file.metadata | {"config": json.dumps(config)})
    with pytest.raises(InputError, match=r"do not match their configuration \(encoder\.blocks"):
        gp.load_network(tmp_path / "huge.safetensors")
    assert open_weights(tmp_path / "huge.safetensors").network_config.embedding_dim == 65536
