"""The server does what its OpenAPI description says."""

import subprocess
import sys


def test_schemathesis_finds_nothing(server, tmp_path):
    options = ["--max-examples", "6", "--seed", "1", "--no-color", "--generation-database=none"]
    # A text may be described correctly and still not be a name, an image or the name of an encoder.
    options += ["--exclude-checks", "positive_data_acceptance"]
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{server.url}/api/v1/openapi.json", *options]
    found = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert found.returncode == 0, found.stdout[-3000:] + found.stderr[-1000:]
    assert "Traceback" not in server.said()


def test_every_operation_is_described(client):
    document = client.get("/openapi.json").json()
    operations = [operation for path in document["paths"].values() for operation in path.values()]
    assert len(operations) >= 24
    assert all(operation["description"] for operation in operations)
    for name in ("ExamplesIn", "ImagesIn", "ExampleIn", "Failure"):
        assert name in document["components"]["schemas"]
