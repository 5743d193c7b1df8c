"""Looks at a file to deploy as its consumer would: lint.py dockerfile|compose|kubernetes PATH."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import yaml

PACKAGES = Path(os.environ["PYTHONPATH"])


def dockerfile(path):
    subprocess.run([PACKAGES / "bin" / "hadolint", path], check=True)


def compose(path):
    schema = json.loads((PACKAGES / "compose" / "config" / "compose_spec.json").read_text())
    jsonschema.validate(yaml.safe_load(Path(path).read_text()), schema)


def kubernetes(path):
    import kubernetes_validate

    documents = [one for one in yaml.safe_load_all(Path(path).read_text()) if one]
    for document in documents:
        kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)
    assert documents, "nothing is in it"


if __name__ == "__main__":
    {"dockerfile": dockerfile, "compose": compose, "kubernetes": kubernetes}[sys.argv[1]](sys.argv[2])
