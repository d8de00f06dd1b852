"""`gaussproto classify --server` says what the local command says."""

import json

import pytest

from benchmarks.target import files


@pytest.fixture
def images(tmp_path, drawings):
    for c in range(3):
        (tmp_path / f"{c}.png").write_bytes(drawings[c][5])
    return [tmp_path / f"{c}.png" for c in range(3)]


@pytest.fixture
def named(client, gallery):
    """The name of a gallery that no other test uses."""
    name = f"of {gallery}"
    client.patch(gallery, json={"name": name})
    return name


@pytest.mark.filterwarnings("ignore:the examples are too few")
def test_the_answers_are_those_of_the_local_command(gaussproto, server, client, gallery, named, images, tmp_path):
    file = tmp_path / "x.gallery"
    file.write_bytes(client.get(f"{gallery}/file").content)
    code, out, err = gaussproto("classify", "--gallery", file, *images, "--json")
    assert code == 0, err
    local = json.loads(out)
    for which in (named, gallery.rpartition("/")[2]):
        code, out, err = gaussproto("classify", "--server", server.url, "--gallery", which, *images, "--json")
        assert code == 0, err
        remote = json.loads(out)
        assert remote["classes"] == local["classes"]
        for one, two in zip(remote["images"], local["images"], strict=True):
            assert (one["image"], one["unknown"], one["blank"]) == (two["image"], two["unknown"], two["blank"])
            assert [each["label"] for each in one["top"]] == [each["label"] for each in two["top"]]
            for key in ("probability", "distance"):
                numbers, expected = ([each[key] for each in answer["top"]] for answer in (one, two))
                assert numbers == pytest.approx(expected, rel=1e-3, abs=1e-6)


def test_tables_csv_and_unreadable_files(gaussproto, server, named, images, tmp_path):
    images[1].write_bytes(b"no image")
    command = ["classify", "--server", f"{server.url}/", "--gallery", named, *images]
    code, out, err = gaussproto(*command, "--csv", "--top", 1)
    assert code == 0
    lines = out.splitlines()
    assert len(lines) == 4
    assert "is not a readable image" in lines[2]
    assert "1 of 3 images could not be read" in err
    code, out, _ = gaussproto(*command)
    assert code == 0
    assert "unreadable" in out
    code, _, err = gaussproto(*command, "--strict")
    assert code == 2
    assert "is not a readable image" in err


def test_files_that_only_the_server_refuses(gaussproto, server, named, images):
    """A file that is fine here, but too large for the server, is a problem of that file."""
    images[1].write_bytes(images[1].read_bytes() + bytes(17_000_000))
    images[2].write_bytes(images[2].read_bytes() + bytes(65_000_000))
    command = ["classify", "--server", server.url, "--gallery", named, *images]
    code, out, err = gaussproto(*command, "--json")
    assert code == 0, err
    first, second, third = json.loads(out)["images"]
    assert first["top"]
    assert second["problem"].startswith("must have at most 16,000,000 bytes")
    assert "must have at most 64,000,000 bytes" in third["problem"]
    code, _, err = gaussproto(*command, "--strict")
    assert code == 2
    assert f"{images[1]} must have at most 16,000,000 bytes" in err


def test_mistakes(gaussproto, server, named, images, tmp_path):
    for options, sentence in (
        (["--server", server.url, "--gallery", "nothing like it"], "the server has no gallery 'nothing like it'"),
        (["--server", "http://127.0.0.1:9", "--gallery", "x"], "cannot reach the server"),
        (["--server", "nonsense", "--gallery", "x"], "--server must begin with http:// or https:// (found 'nonsense')"),
        (["--server", "ftp://x", "--gallery", "x"], "--server must begin with http:// or https:// (found 'ftp://x')"),
        (["--server", server.url, "--gallery", named, "--ink", "dark"], "a server decides how it classifies"),
        (["--server", server.url, "--support", tmp_path], "leave out --support"),
        (["--server", server.url], "with --server, pass --gallery NAME"),
    ):
        code, _, err = gaussproto("classify", *options, images[0])
        assert code == 2
        assert sentence in err


def test_a_token_is_sent(gaussproto, guarded, images, drawings, monkeypatch):
    path = f"/galleries/{guarded.client.post('/galleries', json={'name': 'mine'}).json()['id']}"
    for c, name in enumerate("ab"):
        guarded.client.post(f"{path}/examples", data={"class": name}, files=files(drawings[c][0]))
    command = ["classify", "--server", guarded.url, "--gallery", "mine", images[0]]
    assert "the token is missing or wrong" in gaussproto(*command)[2]
    assert gaussproto(*command, "--token", guarded.token)[0] == 0
    monkeypatch.setenv("GAUSSPROTO_TOKEN", guarded.token)
    assert gaussproto(*command)[0] == 0
