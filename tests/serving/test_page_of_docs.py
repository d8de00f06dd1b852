"""The examples of docs/serving.md work."""

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "serving.md"


def test_the_examples(server, gallery, drawings, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for c, name in enumerate(("stop", "go")):
        Path(name).mkdir()
        for i in range(3):
            Path(name, f"{i}.png").write_bytes(drawings[c][i])
    Path("new.png").write_bytes(drawings[1][5])
    namespace = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        code = block.replace("http://127.0.0.1:8000", server.url).replace("/galleries/GALLERY", gallery)
        exec(code, namespace)
    assert capsys.readouterr().out.startswith("b 0.")
    whole = namespace["api"].get(f"/galleries/{namespace['gallery']}").json()
    assert [(each["name"], len(each["examples"])) for each in whole["classes"]] == [("stop", 3), ("go", 3)]
    namespace["api"].close()
