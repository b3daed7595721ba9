"""A ConfigMap or Secret as kubelet mounts it: files are links into `..data`, which is a link to a dated folder and is
swapped for a new one in one step; then the old folder goes (kubelet's AtomicWriter)."""

import itertools
import os
import pathlib
import shutil

_dates = itertools.count(1)


class Volume:
    """One mounted volume. Invariant: a reader sees all old files or all new ones."""

    def __init__(self, folder, files):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True)
        self.update(files)

    def update(self, files):
        dated = self.folder / f"..2026_11_30_08_00_00.{next(_dates):09}"
        dated.mkdir()
        for name, text in files.items():
            (dated / name).write_text(text)
        data, new = self.folder / "..data", self.folder / "..data_tmp"
        old = self.folder / os.readlink(data) if data.is_symlink() else None
        new.symlink_to(dated.name)
        new.rename(data)
        for name in files:
            if not (self.folder / name).is_symlink():
                (self.folder / name).symlink_to(f"..data/{name}")
        if old:
            for link in self.folder.iterdir():
                if not link.name.startswith("..") and link.name not in files:
                    link.unlink()
            shutil.rmtree(old)
