"""Files: what is written is whole, durable and where it belongs; what is read is checked, bounded and never blocks."""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaussproto import files
from gaussproto.errors import InputError
from gaussproto.files import locked, read_file, read_json, write_json, write_then_rename

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def write(path, text):
    with write_then_rename(path) as temporary:
        temporary.write_text(text)


def test_the_content_is_synced_before_its_name_and_the_name_before_the_writer_returns(tmp_path, monkeypatch):
    events = []
    fsync, replace = os.fsync, Path.replace
    inode = lambda fd: "folder" if os.path.isdir(f"/proc/self/fd/{fd}") else "file"  # noqa: E731, PTH112
    monkeypatch.setattr(os, "fsync", lambda fd: (events.append(inode(fd)), fsync(fd)))
    monkeypatch.setattr(Path, "replace", lambda path, to: (events.append("rename"), replace(path, to)))
    write(tmp_path / "new" / "deep" / "it", "x")
    assert events == ["folder", "folder", "file", "rename", "folder"]  # two new folders, each in its parent


def test_a_link_is_followed_and_stays_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real" / "it")
    write(tmp_path / "link", "first")  # even if it points nowhere yet
    write(tmp_path / "link", "second")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "it").read_text() == "second"


def test_a_planted_link_is_not_followed(tmp_path, monkeypatch):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    monkeypatch.setattr(files.secrets, "token_hex", lambda n: "guessed")
    (tmp_path / ".it.guessed.part").symlink_to(victim)
    with pytest.raises(InputError, match="cannot write"):
        write(tmp_path / "it", "x")
    assert victim.read_text() == "precious"


def test_threads_that_write_the_same_file_all_succeed(tmp_path):
    errors = []

    def save(i):
        try:
            for _ in range(20):
                write(tmp_path / "it", str(i) * 1000)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=save, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert len(set((tmp_path / "it").read_text())) == 1  # one of them, whole
    assert [path.name for path in tmp_path.iterdir()] == ["it"]


def test_only_old_leftovers_of_the_same_file_are_removed(tmp_path):
    old, new, other = (tmp_path / name for name in (".it.a.part", ".it.b.part", ".that.c.part"))
    for path in (old, new, other):
        path.write_text("x")
    for path in (old, other):
        os.utime(path, (time.time() - 3600,) * 2)
    write(tmp_path / "it", "x")
    assert [path.exists() for path in (old, new, other)] == [False, True, True]


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_only_files_are_replaced_and_read(tmp_path, kind):
    path = tmp_path / "it"
    path.mkdir() if kind == "folder" else os.mkfifo(path)
    with pytest.raises(InputError, match=rf"cannot write .*it \(it is a {kind}\)"):
        write(path, "x")
    with pytest.raises(InputError, match=rf"the thing .*it must be a file \(found a {kind}\)"):  # and does not block
        read_file(path, "thing")


def test_a_reader_gets_the_whole_old_or_the_whole_new_file(tmp_path):
    path = tmp_path / "it.json"
    contents = [{"x": "a" * 10}, {"x": "b" * 100_000}]
    write_json(path, contents[0])
    done = threading.Event()

    def replace_often():
        for i in range(300):
            write_json(path, contents[i % 2])
        done.set()

    writer = threading.Thread(target=replace_often)
    writer.start()
    while not done.is_set():
        assert read_json(path) in contents
    writer.join()


def test_what_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match=r"the thing .*nothing does not exist"):
        read_file(tmp_path / "nothing", "thing")
    with pytest.raises(InputError, match="null byte"):
        read_file(Path("a\0b"), "thing")
    with pytest.raises(InputError, match="name too long"):
        read_file(tmp_path / ("x" * 300), "thing")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(InputError, match="symbolic links"):
        read_file(tmp_path / "loop", "thing")
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 42)  # takes no space on the disk
    with pytest.raises(InputError, match=r"must have at most .* MB \(found 4,398,046.5 MB\)"):
        read_file(tmp_path / "sparse", "thing")


@given(content=st.dictionaries(st.text().filter(lambda key: key != "sha256"), JSON, max_size=4))
@settings(deadline=None, max_examples=50)
def test_json_comes_back_and_a_changed_value_is_noticed(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("json") / "it.json"
    write_json(path, content)
    assert read_json(path) == content
    tree = json.loads(path.read_text())
    path.write_text(json.dumps(tree))  # other spaces are no change
    assert read_json(path) == content
    path.write_text(json.dumps(tree | {"more": 1}))
    with pytest.raises(InputError, match="has changed since gaussproto wrote it"):
        read_json(path)
    del tree["sha256"]
    path.write_text(json.dumps(tree | {"more": 1}))  # by hand
    assert read_json(path) == content | {"more": 1}


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "1" * 5000, "\ud800", '{"a": 1}x', "\x00"])
def test_what_is_no_json_is_one_sentence(tmp_path, text):
    (tmp_path / "it.json").write_bytes(text.encode(errors="surrogatepass"))
    with pytest.raises(InputError, match="is not a readable JSON file") as error:
        read_json(tmp_path / "it.json")
    assert "\n" not in str(error.value)


HOLD = """
import sys, time
from pathlib import Path
from gaussproto.files import locked
with locked(Path(sys.argv[1]), Path("it"), "wait"):
    print("held", flush=True)
    time.sleep(float(sys.argv[2]))
"""


def test_a_lock_keeps_other_processes_out_until_the_holder_ends(tmp_path):
    lock = tmp_path / ".lock"
    with subprocess.Popen([sys.executable, "-c", HOLD, lock, "60"], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        with (
            pytest.raises(InputError, match="another process is using it: come back later"),
            locked(lock, Path("it"), "come back later"),
        ):
            pass
        holder.kill()
    with locked(lock, Path("it"), "come back later"):  # even a killed one
        pass
    with subprocess.Popen([sys.executable, "-c", HOLD, lock, "0.5"], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        with locked(lock, Path("it"), "come back later", wait=30):
            pass
