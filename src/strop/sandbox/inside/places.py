"""Names that hold inside every jail, and in those who make one."""

BOX = "/box/job"
ETC = ("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime")
PASSWD = "root:x:0:0::/:/bin/false\njob:x:1000:1000::/box/job/work:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n"
GROUP = "root:x:0:\njob:x:1000:\nnogroup:x:65534:\n"
