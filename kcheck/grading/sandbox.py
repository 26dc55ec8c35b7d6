"""What a process that runs untrusted code may do: nothing but compute, and write below one folder.

Each layer works alone, because none is available everywhere::

    namespaces   no other process, network or mount is visible; user, PID, mount, network, IPC
    landlock     reads only what Python needs, and the candidate; writes only below its own folder
    seccomp      starts no process, opens no socket, traces and mounts nothing
    rlimits      memory, processor time, size and number of files

Sources: user_namespaces(7), landlock(7), seccomp(2), setrlimit(2); numbers of system calls from asm/unistd_64.h.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import struct
import sys
from collections.abc import Callable, Iterable, Sequence

from kcheck import children
from kcheck.dataclass import dataclass

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_libc = ctypes.CDLL(None, use_errno=True)

_NO_NEW_PRIVS, _SECCOMP, _SECCOMP_FILTER = 38, 22, 2
_NEWNS, _NEWUTS, _NEWIPC, _NEWUSER, _NEWPID, _NEWNET = (1 << n for n in (17, 26, 27, 28, 29, 30))
_PRIVATE, _RECURSIVE = 1 << 18, 1 << 14
_NO_SUID_DEV = 2 | 4
_NO_SUID_DEV_EXEC = _NO_SUID_DEV | 8
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_LANDLOCK_VERSION = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_READING = _EXECUTE | _READ_FILE | _READ_DIR
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | 1 << 14 | 1 << 15
"""The rights that a rule for a file, not a folder, may have."""

_X86_64 = 0xC000003E
_DENIED = {
    "socket": 41, "fork": 57, "vfork": 58, "execve": 59, "kill": 62, "ptrace": 101,
    "pivot_root": 155, "chroot": 161, "mount": 165, "umount2": 166, "reboot": 169, "tkill": 200,
    "add_key": 248, "request_key": 249, "keyctl": 250, "unshare": 272, "perf_event_open": 298,
    "open_by_handle_at": 304, "setns": 308, "process_vm_readv": 310,
    "process_vm_writev": 311, "bpf": 321, "execveat": 322, "userfaultfd": 323, "pidfd_send_signal": 424,
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "pidfd_open": 434, "pidfd_getfd": 438, "process_madvise": 440,
}  # fmt: skip
"""System calls that fail with EPERM. They start or reach other processes, or change what this one may do."""
_STARTING = frozenset({"fork", "vfork", "execve", "kill"})
_CLONE, _CLONE3, _CAPSET = 56, 435, 126
_CLONE_THREAD = 1 << 16


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """Limits of a confined process.

    Attributes:
        memory: bytes of address space beyond what the process has when it is confined. The sanitizers reserve
            several times the device's memory and touch little of it, so the grader watches what is touched.
        seconds: processor time.
        disk: bytes of each file, and of its folder where that can be limited.
    """

    memory: int = 80 << 30
    seconds: int = 3600
    disk: int = 256 << 20


def confine(
    folder: str,
    readable: Sequence[str],
    limits: ProcessLimits,
    then: Callable[[], None],
    *,
    starts_programs: bool = False,
    keeps_folder: bool = False,
) -> int:
    """Run a function in a separate, confined process, and wait for it. Called in a forked process that
    has one thread.

    Args:
        folder: its private folder, the only place where it may write.
        readable: files and folders that it may read.
        then: runs in the confined process.
        starts_programs: whether it may start others, confined as it is: a compiler.
        keeps_folder: whether the folder keeps what is in it, and what the process writes there.

    Returns:
        Its exit code, or minus the number of the signal that killed it.
    """
    spaces = _leave_namespaces()

    def work() -> None:
        children.die_with_parent()
        if spaces:
            _mount("" if keeps_folder else folder, limits.disk, starts_programs=starts_programs)
        _limit(limits)
        _drop_capabilities()
        _libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)
        _landlock(folder, readable)
        _seccomp(starts_programs)
        then()

    return children.wait(children.fork(work))


def lacking() -> tuple[str, ...]:
    """What this machine does not have of the four layers, one clause each. Tries each in a separate process."""
    tried = {
        "user namespaces are not permitted": lambda: _leave_namespaces(),
        "landlock is not available": lambda: _landlock_version() > 0,
        "seccomp filters are not available": lambda: _libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 and _seccomp(),
    }
    return tuple(what for what, works in tried.items() if not _works(works))


def _works(test: Callable[[], bool]) -> bool:
    return children.wait(children.fork(lambda: 0 if test() else 1)) == 0


def _leave_namespaces() -> bool:
    """Whether the next fork is process 1 of new namespaces, as the same user."""
    user, group = os.geteuid(), os.getegid()
    if _libc.unshare(_NEWUSER | _NEWNS | _NEWPID | _NEWNET | _NEWIPC | _NEWUTS) != 0:
        return False
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    return True


def _mount(folder: str, size: int, *, starts_programs: bool) -> None:
    """A folder in memory of limited size, if one is given, and a /proc that shows this process only. Where the
    machine refuses, landlock still restricts both."""
    _libc.mount(b"none", b"/", None, _RECURSIVE | _PRIVATE, None)
    flags = _NO_SUID_DEV if starts_programs else _NO_SUID_DEV_EXEC
    if folder:
        _libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", flags, f"size={size}".encode())
    _libc.mount(b"proc", b"/proc", b"proc", _NO_SUID_DEV_EXEC, None)


def _limit(limits: ProcessLimits) -> None:
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    for kind, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_AS, now + limits.memory),
        (resource.RLIMIT_CPU, limits.seconds),
        (resource.RLIMIT_FSIZE, limits.disk),
        (resource.RLIMIT_NOFILE, 256),
    ):
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard),) * 2)


def _drop_capabilities() -> None:
    """Without them, not even root raises a limit again."""
    _libc.syscall(_CAPSET, struct.pack("Ii", 0x20080522, 0), bytes(24))


def readable_by_default(extra: Iterable[str]) -> list[str]:
    """What Python, its packages and kcheck need to read, and ``extra``. Not the project: it has the references."""
    packages = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    system = [
        "/usr",
        "/lib",
        "/lib64",
        "/bin",
        "/etc/ld.so.cache",
        "/etc/localtime",
        "/sys/devices/system",
        "/dev/null",
    ]
    system += [
        "/dev/zero",
        "/dev/urandom",
        "/proc/cpuinfo",
        "/proc/meminfo",
        "/proc/stat",
        "/proc/sys",
        "/proc/self",
    ]
    return [*system, sys.prefix, sys.base_prefix, *packages, _PACKAGE, *extra]


def _landlock_version() -> int:
    return int(_libc.syscall(_LANDLOCK_CREATE, None, 0, _LANDLOCK_VERSION))


def _landlock(folder: str, readable: Sequence[str]) -> None:
    version = _landlock_version()
    if version < 1:
        return
    rights = (1 << (13 + min(version - 1, 2) + (version >= 5))) - 1
    fields = [rights, *([3] if version >= 4 else []), *([3] if version >= 6 else [])]  # TCP; signals and sockets
    attributes = struct.pack(f"{len(fields)}Q", *fields)
    ruleset = _libc.syscall(_LANDLOCK_CREATE, attributes, len(attributes), 0)
    if ruleset < 0:
        return
    for path in (*readable, folder):
        _allow(ruleset, path, rights if path == folder else _READING)
    for device in ("/dev/null", "/dev/zero"):
        _allow(ruleset, device, _READ_FILE | _WRITE_FILE)
    _libc.syscall(_LANDLOCK_RESTRICT, ruleset, 0)
    os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    if not os.path.isdir(path):
        rights &= _OF_FILES
    rule = struct.pack("=Qi", rights, opened)
    _libc.syscall(_LANDLOCK_ADD, ruleset, 1, rule, 0)
    os.close(opened)


def _seccomp(starts_programs: bool = False) -> bool:
    """Deny :data:`_DENIED`, and unless ``starts_programs``, new processes; new threads are allowed. Returns
    whether the filter is in place."""
    if platform.machine() != "x86_64":
        return False
    program = _filter(starts_programs)
    code = ctypes.create_string_buffer(program, len(program))

    class BpfProgram(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))

    made = BpfProgram(len(program) // 8, ctypes.addressof(code))
    return bool(_libc.prctl(_SECCOMP, _SECCOMP_FILTER, ctypes.byref(made), 0, 0) == 0)


def _filter(starts_programs: bool) -> bytes:
    """The classic BPF program: load a word of ``struct seccomp_data``, compare, return."""
    load, equal, bits, give = 0x20, 0x15, 0x45, 0x06
    permit, refuse, absent, end = 0x7FFF0000, 0x00050001, 0x00050000 | 38, 0x80000000
    rows = [
        (load, 0, 0, 4),
        (equal, 1, 0, _X86_64),
        (give, 0, 0, end),
        (load, 0, 0, 0),
        (0x35, 0, 1, 0x40000000),  # x32 calls have other numbers
        (give, 0, 0, refuse),
        (equal, 0, 1, _CLONE3),  # its flags are in memory that a filter cannot read; libc then uses clone
        (give, 0, 0, absent),
    ]
    if not starts_programs:
        rows += [
            (equal, 0, 4, _CLONE),
            (load, 0, 0, 16),
            (bits, 1, 0, _CLONE_THREAD),
            (give, 0, 0, refuse),
            (give, 0, 0, permit),
        ]
    for name, number in _DENIED.items():
        if starts_programs and name in _STARTING:
            continue
        rows += [(equal, 0, 1, number), (give, 0, 0, refuse)]
    rows.append((give, 0, 0, permit))
    return b"".join(struct.pack("=HBBI", *row) for row in rows)
