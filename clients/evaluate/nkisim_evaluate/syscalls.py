"""Lists the numbers of system calls that a submitted kernel is watched for or refused, by machine,
as in the headers of Linux (asm/unistd_64.h, asm-generic/unistd.h).
"""

#: Decided one by one in the process that watches: what opens, changes or starts something.
WATCHED = (
    "open openat creat socket socketpair clone fork vfork execve execveat unlink unlinkat "
    "rename renameat renameat2 mkdir mkdirat rmdir link linkat symlink symlinkat chmod fchmod "
    "fchmodat fchmodat2 chown fchown lchown fchownat truncate mknod mknodat utime utimes "
    "utimensat futimesat setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr").split()

#: Never of use to a kernel's recording: EPERM.
REFUSED = (
    "ptrace process_vm_readv process_vm_writev kcmp pidfd_open pidfd_getfd pidfd_send_signal "
    "process_madvise mount umount2 pivot_root chroot unshare setns mount_setattr move_mount "
    "open_tree fsopen fsconfig fsmount fspick bpf perf_event_open keyctl add_key request_key "
    "userfaultfd setrlimit rt_sigaction rt_sigqueueinfo rt_tgsigqueueinfo tkill shmget shmat "
    "msgget semget mq_open inotify_init inotify_init1 fanotify_init name_to_handle_at "
    "open_by_handle_at kexec_load kexec_file_load init_module finit_module delete_module "
    "swapon swapoff reboot settimeofday clock_settime clock_adjtime adjtimex sethostname "
    "setdomainname acct quotactl syslog personality iopl ioperm setpriority sched_setscheduler "
    "sched_setparam sched_setattr ioprio_set landlock_add_rule seccomp setuid setgid setreuid "
    "setregid setresuid setresgid setgroups capset vhangup lookup_dcookie nfsservctl "
    "migrate_pages move_pages mbind set_mempolicy").split()

#: As if the system were too old to have them (ENOSYS), which makes libraries use another.
MISSING = (
    "openat2 clone3 io_uring_setup io_uring_enter io_uring_register memfd_create memfd_secret "
    "close_range statmount listmount").split()

_X86_64 = {
    "acct": 163, "add_key": 248, "adjtimex": 159, "bpf": 321, "capset": 126, "chmod": 90,
    "chown": 92, "chroot": 161, "clock_adjtime": 305, "clock_settime": 227, "clone": 56,
    "clone3": 435, "close": 3, "close_range": 436, "creat": 85, "delete_module": 176, "dup2": 33,
    "dup3": 292, "execve": 59, "execveat": 322, "fanotify_init": 300, "fchmod": 91,
    "fchmodat": 268, "fchmodat2": 452, "fchown": 93, "fchownat": 260, "fcntl": 72,
    "finit_module": 313, "fork": 57, "fremovexattr": 199, "fsconfig": 431, "fsetxattr": 190,
    "fsmount": 432, "fsopen": 430, "fspick": 433, "futimesat": 261, "init_module": 175,
    "inotify_init": 253, "inotify_init1": 294, "io_uring_enter": 426, "io_uring_register": 427,
    "io_uring_setup": 425, "ioctl": 16, "ioperm": 173, "iopl": 172, "ioprio_set": 251,
    "kcmp": 312, "kexec_file_load": 320, "kexec_load": 246, "keyctl": 250, "kill": 62,
    "landlock_add_rule": 445, "lchown": 94, "link": 86, "linkat": 265, "listmount": 458,
    "lookup_dcookie": 212, "lremovexattr": 198, "lsetxattr": 189, "mbind": 237,
    "memfd_create": 319, "memfd_secret": 447, "migrate_pages": 256, "mkdir": 83, "mkdirat": 258,
    "mknod": 133, "mknodat": 259, "mount": 165, "mount_setattr": 442, "move_mount": 429,
    "move_pages": 279, "mq_open": 240, "msgget": 68, "name_to_handle_at": 303, "nfsservctl": 180,
    "open": 2, "open_by_handle_at": 304, "open_tree": 428, "openat": 257, "openat2": 437,
    "perf_event_open": 298, "personality": 135, "pidfd_getfd": 438, "pidfd_open": 434,
    "pidfd_send_signal": 424, "pivot_root": 155, "prctl": 157, "prlimit64": 302,
    "process_madvise": 440, "process_vm_readv": 310, "process_vm_writev": 311, "ptrace": 101,
    "quotactl": 179, "reboot": 169, "removexattr": 197, "rename": 82, "renameat": 264,
    "renameat2": 316, "request_key": 249, "rmdir": 84, "rt_sigaction": 13,
    "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297, "sched_setattr": 314,
    "sched_setparam": 142, "sched_setscheduler": 144, "seccomp": 317, "semget": 64,
    "set_mempolicy": 238, "setdomainname": 171, "setgid": 106, "setgroups": 116,
    "sethostname": 170, "setns": 308, "setpriority": 141, "setregid": 114, "setresgid": 119,
    "setresuid": 117, "setreuid": 113, "setrlimit": 160, "settimeofday": 164, "setuid": 105,
    "setxattr": 188, "shmat": 30, "shmget": 29, "socket": 41, "socketpair": 53, "statmount": 457,
    "swapoff": 168, "swapon": 167, "symlink": 88, "symlinkat": 266, "syslog": 103, "tgkill": 234,
    "tkill": 200, "truncate": 76, "umount2": 166, "unlink": 87, "unlinkat": 263, "unshare": 272,
    "userfaultfd": 323, "utime": 132, "utimensat": 280, "utimes": 235, "vfork": 58,
    "vhangup": 153,}

_AARCH64 = {
    "acct": 89, "add_key": 217, "adjtimex": 171, "bpf": 280, "capset": 91, "chroot": 51,
    "clock_adjtime": 266, "clock_settime": 112, "clone": 220, "clone3": 435, "close": 57,
    "close_range": 436, "delete_module": 106, "dup3": 24, "execve": 221, "execveat": 281,
    "fanotify_init": 262, "fchmod": 52, "fchmodat": 53, "fchmodat2": 452, "fchown": 55,
    "fchownat": 54, "fcntl": 25, "finit_module": 273, "fremovexattr": 16, "fsconfig": 431,
    "fsetxattr": 7, "fsmount": 432, "fsopen": 430, "fspick": 433, "init_module": 105,
    "inotify_init1": 26, "io_uring_enter": 426, "io_uring_register": 427, "io_uring_setup": 425,
    "ioctl": 29, "ioprio_set": 30, "kcmp": 272, "kexec_file_load": 294, "kexec_load": 104,
    "keyctl": 219, "kill": 129, "landlock_add_rule": 445, "linkat": 37, "listmount": 458,
    "lookup_dcookie": 18, "lremovexattr": 15, "lsetxattr": 6, "mbind": 235, "memfd_create": 279,
    "memfd_secret": 447, "migrate_pages": 238, "mkdirat": 34, "mknodat": 33, "mount": 40,
    "mount_setattr": 442, "move_mount": 429, "move_pages": 239, "mq_open": 180, "msgget": 186,
    "name_to_handle_at": 264, "nfsservctl": 42, "open_by_handle_at": 265, "open_tree": 428,
    "openat": 56, "openat2": 437, "perf_event_open": 241, "personality": 92, "pidfd_getfd": 438,
    "pidfd_open": 434, "pidfd_send_signal": 424, "pivot_root": 41, "prctl": 167,
    "prlimit64": 261, "process_madvise": 440, "process_vm_readv": 270, "process_vm_writev": 271,
    "ptrace": 117, "quotactl": 60, "reboot": 142, "removexattr": 14, "renameat": 38,
    "renameat2": 276, "request_key": 218, "rt_sigaction": 134, "rt_sigqueueinfo": 138,
    "rt_tgsigqueueinfo": 240, "sched_setattr": 274, "sched_setparam": 118,
    "sched_setscheduler": 119, "seccomp": 277, "semget": 190, "set_mempolicy": 237,
    "setdomainname": 162, "setgid": 144, "setgroups": 159, "sethostname": 161, "setns": 268,
    "setpriority": 140, "setregid": 143, "setresgid": 149, "setresuid": 147, "setreuid": 145,
    "setrlimit": 164, "settimeofday": 170, "setuid": 146, "setxattr": 5, "shmat": 196,
    "shmget": 194, "socket": 198, "socketpair": 199, "statmount": 457, "swapoff": 225,
    "swapon": 224, "symlinkat": 36, "syslog": 116, "tgkill": 131, "tkill": 130, "truncate": 45,
    "umount2": 39, "unlinkat": 35, "unshare": 97, "userfaultfd": 282, "utimensat": 88,
    "vhangup": 58,}

#: By os.uname().machine: (AUDIT_ARCH of the kernel, numbers by name, the highest number known).
MACHINES = {"x86_64": (0xC000003E, _X86_64, 470), "aarch64": (0xC00000B7, _AARCH64, 470)}
