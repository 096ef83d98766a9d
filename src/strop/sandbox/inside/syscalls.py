"""The system calls a job may make, with their numbers by machine; all others are refused.

Those at the end of each table are allowed for some arguments only: see filters.py.
"""

X86_64 = """
read:0 write:1 open:2 close:3 stat:4 fstat:5 lstat:6 poll:7 lseek:8 mmap:9 mprotect:10 munmap:11 brk:12
rt_sigaction:13 rt_sigprocmask:14 rt_sigreturn:15 pread64:17 pwrite64:18 readv:19 writev:20 access:21 pipe:22
select:23 sched_yield:24 mremap:25 msync:26 mincore:27 madvise:28 dup:32 dup2:33 pause:34 nanosleep:35 getitimer:36
alarm:37 setitimer:38 getpid:39 sendfile:40 connect:42 accept:43 sendto:44 recvfrom:45 sendmsg:46 recvmsg:47
shutdown:48 bind:49 listen:50 getsockname:51 getpeername:52 setsockopt:54 getsockopt:55 fork:57 vfork:58 execve:59
exit:60 wait4:61 kill:62 uname:63 fcntl:72 flock:73 fsync:74 fdatasync:75 truncate:76 ftruncate:77 getdents:78
getcwd:79 chdir:80 fchdir:81 rename:82 mkdir:83 rmdir:84 creat:85 link:86 unlink:87 symlink:88 readlink:89 chmod:90
fchmod:91 chown:92 fchown:93 lchown:94 umask:95 gettimeofday:96 getrlimit:97 getrusage:98 sysinfo:99 times:100
getuid:102 getgid:104 geteuid:107 getegid:108 setpgid:109 getppid:110 getpgrp:111 setsid:112 getgroups:115
getresuid:118 getresgid:120 getpgid:121 getsid:124 capget:125 rt_sigpending:127 rt_sigtimedwait:128
rt_sigqueueinfo:129 rt_sigsuspend:130 sigaltstack:131 utime:132 mknod:133 statfs:137 fstatfs:138 getpriority:140
setpriority:141 sched_getparam:143 sched_getscheduler:145 sched_get_priority_max:146 sched_get_priority_min:147
sched_rr_get_interval:148 setrlimit:160 arch_prctl:158 gettid:186 readahead:187 getxattr:191 lgetxattr:192
fgetxattr:193 listxattr:194 llistxattr:195 flistxattr:196 tkill:200 time:201 futex:202 sched_getaffinity:204
epoll_create:213 getdents64:217 set_tid_address:218 restart_syscall:219 fadvise64:221 timer_create:222
timer_settime:223 timer_gettime:224 timer_getoverrun:225 timer_delete:226 clock_gettime:228 clock_getres:229
clock_nanosleep:230 exit_group:231 epoll_wait:232 epoll_ctl:233 tgkill:234 utimes:235 waitid:247 openat:257
mkdirat:258 mknodat:259 fchownat:260 futimesat:261 newfstatat:262 unlinkat:263 renameat:264 linkat:265 symlinkat:266
readlinkat:267 fchmodat:268 faccessat:269 pselect6:270 ppoll:271 set_robust_list:273 get_robust_list:274 splice:275
tee:276 sync_file_range:277 utimensat:280 epoll_pwait:281 signalfd:282 timerfd_create:283 eventfd:284 fallocate:285
timerfd_settime:286 timerfd_gettime:287 accept4:288 signalfd4:289 eventfd2:290 epoll_create1:291 dup3:292 pipe2:293
inotify_init:253 inotify_init1:294 inotify_add_watch:254 inotify_rm_watch:255 preadv:295 pwritev:296
rt_tgsigqueueinfo:297 sendmmsg:307 recvmmsg:299 getcpu:309 renameat2:316 getrandom:318 execveat:322 membarrier:324
copy_file_range:326 preadv2:327 pwritev2:328 statx:332 rseq:334 pidfd_send_signal:424 pidfd_open:434 close_range:436
openat2:437 faccessat2:439 epoll_pwait2:441 sched_setaffinity:203 clone:56 clone3:435 socket:41 socketpair:53
prctl:157 ioctl:16 prlimit64:302 memfd_create:319
"""

AARCH64 = """
read:63 write:64 close:57 fstat:80 lseek:62 mmap:222 mprotect:226 munmap:215 brk:214 rt_sigaction:134
rt_sigprocmask:135 rt_sigreturn:139 pread64:67 pwrite64:68 readv:65 writev:66 sched_yield:124 mremap:216 msync:227
mincore:232 madvise:233 dup:23 nanosleep:101 getitimer:102 setitimer:103 getpid:172 sendfile:71 connect:203
accept:202 sendto:206 recvfrom:207 sendmsg:211 recvmsg:212 shutdown:210 bind:200 listen:201 getsockname:204
getpeername:205 setsockopt:208 getsockopt:209 execve:221 exit:93 wait4:260 kill:129 uname:160 fcntl:25 flock:32
fsync:82 fdatasync:83 truncate:45 ftruncate:46 getcwd:17 chdir:49 fchdir:50 fchmod:52 fchown:55 umask:166
gettimeofday:169 getrlimit:163 getrusage:165 sysinfo:179 times:153 getuid:174 getgid:176 geteuid:175 getegid:177
setpgid:154 getppid:173 setsid:157 getgroups:158 getresuid:148 getresgid:150 getpgid:155 getsid:156 capget:90
rt_sigpending:136 rt_sigtimedwait:137 rt_sigqueueinfo:138 rt_sigsuspend:133 sigaltstack:132 statfs:43 fstatfs:44
getpriority:141 setpriority:140 sched_getparam:121 sched_getscheduler:120 sched_get_priority_max:125
sched_get_priority_min:126 sched_rr_get_interval:127 setrlimit:164 gettid:178 readahead:213 getxattr:8
lgetxattr:9 fgetxattr:10 listxattr:11 llistxattr:12 flistxattr:13 tkill:130 futex:98 sched_getaffinity:123
getdents64:61 set_tid_address:96 restart_syscall:128 fadvise64:223 timer_create:107 timer_settime:110
timer_gettime:108 timer_getoverrun:109 timer_delete:111 clock_gettime:113 clock_getres:114 clock_nanosleep:115
exit_group:94 epoll_ctl:21 tgkill:131 waitid:95 openat:56 mkdirat:34 mknodat:33 fchownat:54 unlinkat:35 renameat:38
linkat:37 symlinkat:36 readlinkat:78 fchmodat:53 faccessat:48 pselect6:72 ppoll:73 set_robust_list:99
get_robust_list:100 splice:76 tee:77 sync_file_range:84 utimensat:88 epoll_pwait:22 timerfd_create:85 fallocate:47
timerfd_settime:86 timerfd_gettime:87 accept4:242 signalfd4:74 eventfd2:19 epoll_create1:20 dup3:24 pipe2:59
inotify_init1:26 inotify_add_watch:27 inotify_rm_watch:28 preadv:69 pwritev:70 rt_tgsigqueueinfo:240 sendmmsg:269
recvmmsg:243 getcpu:168 renameat2:276 getrandom:278 execveat:281 membarrier:283 copy_file_range:285 preadv2:286
pwritev2:287 statx:291 rseq:293 pidfd_send_signal:424 pidfd_open:434 close_range:436 openat2:437 faccessat2:439
epoll_pwait2:441 sched_setaffinity:122 clone:220 clone3:435 socket:198 socketpair:199 prctl:167 ioctl:29
prlimit64:261 memfd_create:279
"""


def numbers(machine):
    """Number by name. KeyError for a machine that has no table."""
    table = {"x86_64": X86_64, "aarch64": AARCH64}[machine]
    return {name: int(number) for name, number in (entry.split(":") for entry in table.split())}
