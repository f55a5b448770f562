"""The restrictions of a pod on Kubeflow, as `recordings/` has them.

    unshare --mount --propagation private python -m tests.compiled.pod \\
        SCRATCH PATH... -- COMMAND

runs a command as user 1000 of group 0 without capabilities, with a file system of its
own: this machine's programs, the given paths, and empty directories where the backend
mounts some. SCRATCH is an empty directory. Needs root.
"""

import os
import shutil
import subprocess
import sys

USER = 1000
HOME = "/home/pipeline"
# Mounted by the backend, and empty; the user may write there.
EMPTY = ("/gcs", "/s3", "/minio", "/.local", "/.cache", "/.config")
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/proc", "/dev")
_PASSWD = f"root:x:0:0::/root:/bin/sh\npipeline:x:{USER}:0::{HOME}:/bin/sh\n"


def find_problem() -> str:
    """Returns why this machine cannot restrict a process; empty if it can."""
    if os.getuid() != 0:
        return "a pod's restrictions need root"
    for program in ("unshare", "setpriv", "mount"):
        if shutil.which(program) is None:
            return f"there is no program {program} (Debian: util-linux, mount)"
    unshare = ["unshare", "--mount", "--propagation", "private", "true"]
    if subprocess.run(unshare, capture_output=True, check=False).returncode:
        return "this machine does not allow private mounts (unshare --mount)"
    return ""


def enter(root: str, paths: list[str]) -> None:
    """Changes the root directory of this process, which has its own mounts."""
    _mount("-t", "tmpfs", "tmpfs", root)
    for path in (*_SYSTEM, *paths):
        if os.path.islink(path):
            os.symlink(os.readlink(path), root + path)
        elif os.path.exists(path):
            os.makedirs(root + path, exist_ok=True)
            _mount("--rbind", path, root + path)
    passwd = f"{root}/passwd"
    with open(passwd, "w") as file:
        file.write(_PASSWD)
    _mount("--bind", passwd, f"{root}/etc/passwd")
    for path in (HOME, "/tmp", *EMPTY):
        os.makedirs(root + path, exist_ok=True)
        os.chown(root + path, USER, 0)
    os.chroot(root)
    os.chdir(HOME)


def empty() -> None:
    """Deletes what a container wrote, so that the next one is in a new pod."""
    for path in (HOME, "/tmp", *EMPTY):
        for entry in os.scandir(path):
            # Others are paths that the pod shares with this machine.
            is_own = entry.stat(follow_symlinks=False).st_uid == USER
            if is_own and not os.path.ismount(entry.path):
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path)
                else:
                    os.unlink(entry.path)


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


if __name__ == "__main__":
    end = sys.argv.index("--")
    enter(sys.argv[1], sys.argv[2:end])
    os.execvp(
        "setpriv",
        [
            *("setpriv", "--reuid", str(USER), "--regid", "0", "--clear-groups"),
            *("--no-new-privs", "--inh-caps=-all", "--bounding-set=-all", "--"),
            *sys.argv[end + 1 :],
        ],
    )
