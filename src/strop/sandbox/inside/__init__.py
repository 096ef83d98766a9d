"""What runs within the jail: standard library only, nothing of strop, loaded once by the zygote and forked per job."""
