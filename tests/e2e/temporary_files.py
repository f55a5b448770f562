"""Watches the directory of temporary files while something runs."""

import contextlib
import dataclasses
import os
import stat
import tempfile
import threading
from pathlib import Path

_SECONDS = 0.05


@dataclasses.dataclass
class Watched:
    """What appeared in the directory of temporary files.

    Attributes:
      directory: The directory.
      modes: The permissions of each entry that was seen, by name.
      left: The names of the entries that were there at the end.
    """

    directory: Path
    modes: dict[str, int] = dataclasses.field(default_factory=dict)
    left: list[str] = dataclasses.field(default_factory=list)

    def look(self):
        """Notes the entries that are there now."""
        for entry in os.scandir(self.directory):
            with contextlib.suppress(FileNotFoundError):
                mode = stat.S_IMODE(entry.stat(follow_symlinks=False).st_mode)
                self.modes[entry.name] = self.modes.get(entry.name, 0) | mode

    @property
    def lost(self):
        """The names of the entries that are not deleted when the process ends."""
        # AutoGraph's code and the sockets of `multiprocessing` are deleted then.
        until_the_end = ("__autograph_generated_file", "pymp-")
        return [name for name in self.left if not name.startswith(until_the_end)]

    @property
    def public(self):
        """The names of the entries that other users could read or write."""
        return [name for name, mode in self.modes.items() if mode & 0o077]


@contextlib.contextmanager
def watched(monkeypatch, directory):
    """Gives this process and its children an empty directory, and watches it.

    Args:
      monkeypatch: Restores the previous directory.
      directory: The directory. This process may use it until it ends.
    """
    watch = Watched(directory)
    ended = threading.Event()

    def look_often():
        while not ended.wait(_SECONDS):
            watch.look()

    thread = threading.Thread(target=look_often)
    with monkeypatch.context() as patched:
        patched.setenv("TMPDIR", str(watch.directory))
        patched.setattr(tempfile, "tempdir", str(watch.directory))
        thread.start()
        try:
            yield watch
        finally:
            ended.set()
            thread.join()
            watch.look()
            watch.left = sorted(os.listdir(watch.directory))
