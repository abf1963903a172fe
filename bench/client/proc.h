/* What the server costs, read from /proc: the process and all its descendants. */
#ifndef BENCH_PROC_H
#define BENCH_PROC_H

#include <stdint.h>
#include <sys/types.h>

struct proc_usage {
    double cpu_s;      /* user + system time so far, seconds */
    int64_t rss;       /* bytes */
    int64_t pss;       /* bytes; 0 unless asked for, since the kernel walks every page */
    int fds;           /* open descriptors; 0 unless asked for */
    int processes;
};

enum proc_detail { PROC_CHEAP, PROC_FULL };

struct proc_usage proc_read(pid_t pid, enum proc_detail detail);
/* This process: user + system seconds, and how often it was taken off its core. */
double self_cpu_s(void);
long self_preempted(void);

#endif
