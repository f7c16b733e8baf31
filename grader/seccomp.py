"""A seccomp filter, as the bytes that `bwrap --seccomp FD` takes.

It lets numpy, torch, threads and IPython work, and refuses what could reach
another process, hold memory that no limit counts, or open a new namespace.
Source: linux/seccomp.h, linux/filter.h and the kernel's system call tables.
"""

import errno
import platform
import struct

# name: (x86_64, aarch64); None where the architecture has no such call
REFUSED = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "kcmp": (312, 272), "pidfd_getfd": (438, 438),
    "memfd_create": (319, 279), "memfd_secret": (447, 447),
    "shmget": (29, 194), "shmctl": (31, 195), "shmat": (30, 196), "shmdt": (67, 197),
    "msgget": (68, 186), "msgctl": (71, 187), "msgrcv": (70, 188), "msgsnd": (69, 189),
    "semget": (64, 190), "semctl": (66, 191), "semop": (65, 193), "semtimedop": (220, 192),
    "mq_open": (240, 180), "mq_unlink": (241, 181),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "unshare": (272, 97), "setns": (308, 268),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262), "quotactl": (179, 60), "acct": (163, 89),
    "swapon": (167, 224), "swapoff": (168, 225), "reboot": (169, 142), "syslog": (103, 116),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105),
    "finit_module": (313, 273), "delete_module": (176, 106), "personality": (135, 92),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "adjtimex": (159, 171),
    "setpriority": (141, 140), "ioprio_set": (251, 30), "move_pages": (279, 239),
    "migrate_pages": (256, 238), "sethostname": (170, 161), "setdomainname": (171, 162),
    "iopl": (172, None), "ioperm": (173, None), "modify_ldt": (154, None),
}  # fmt: skip
OWN_ONLY = {  # act on the process of their first argument, where 0 is the caller's own
    "prlimit64": (302, 261), "sched_setparam": (142, 118), "sched_setscheduler": (144, 119),
    "sched_setaffinity": (203, 122), "sched_setattr": (314, 274),
}  # fmt: skip
CLONE, CLONE3 = (56, 220), 435
NEW_NAMESPACE = 0x7E020000  # every CLONE_NEW... flag of clone(2)
ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}

LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, KILL, REFUSE = 0x7FFF0000, 0x80000000, 0x00050000
NUMBER_AT, ARCHITECTURE_AT, FIRST_ARGUMENT_AT = 0, 4, 16


def program(machine=None):
    """The filter for this machine's architecture; raises ValueError for one it does not know."""
    machine = machine or platform.machine()
    if machine not in ARCHITECTURES:
        raise ValueError(f"no seccomp filter for {machine}; there is one for x86_64 and aarch64")
    column, audit = ARCHITECTURES[machine]
    numbers = sorted(pair[column] for pair in REFUSED.values() if pair[column] is not None)
    code = [
        (LOAD, 0, 0, ARCHITECTURE_AT),
        (EQUAL, 1, 0, audit),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, NUMBER_AT),
        (AT_LEAST, 0, 1, 0x40000000),  # the x32 table, where the same calls have other numbers
        (RETURN, 0, 0, REFUSE | errno.EPERM),
        (EQUAL, 0, 1, CLONE3),  # its flags lie in memory: "no such call" sends libc to clone
        (RETURN, 0, 0, REFUSE | errno.ENOSYS),
    ]
    for number in numbers:
        code += [(EQUAL, 0, 1, number), (RETURN, 0, 0, REFUSE | errno.EPERM)]
    for pair in OWN_ONLY.values():
        code += [
            (EQUAL, 0, 4, pair[column]),
            (LOAD, 0, 0, FIRST_ARGUMENT_AT),
            (EQUAL, 1, 0, 0),
            (RETURN, 0, 0, REFUSE | errno.EPERM),
            (RETURN, 0, 0, ALLOW),
        ]
    code += [
        (EQUAL, 0, 3, CLONE[column]),
        (LOAD, 0, 0, FIRST_ARGUMENT_AT),
        (ANY_BIT, 0, 1, NEW_NAMESPACE),
        (RETURN, 0, 0, REFUSE | errno.EPERM),
        (RETURN, 0, 0, ALLOW),
    ]
    return b"".join(struct.pack("<HBBI", *line) for line in code)
