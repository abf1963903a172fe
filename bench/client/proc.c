#include "proc.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static void read_stat(pid_t pid, struct proc_usage *u)
{
    char path[64], line[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return;
    size_t n = fread(line, 1, sizeof line - 1, f);
    fclose(f);
    line[n] = '\0';
    /* The name in brackets may hold anything, so fields count from its last ')'. */
    const char *rest = strrchr(line, ')');
    unsigned long user, system;
    long pages;
    if (rest == NULL ||
        sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %*d %*d %*d %*d %*d "
                         "%*d %*u %*u %ld", &user, &system, &pages) != 3)
        return;
    u->cpu_s += (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
    u->rss += pages * sysconf(_SC_PAGESIZE);
    u->processes++;
}

static void read_pss(pid_t pid, struct proc_usage *u)
{
    char path[64], line[256];
    long kib;
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)pid);
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return;
    while (fgets(line, sizeof line, f) != NULL)
        if (sscanf(line, "Pss: %ld", &kib) == 1)
            u->pss += kib * 1024;
    fclose(f);
}

static void count_fds(pid_t pid, struct proc_usage *u)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *dir = opendir(path);
    if (dir == NULL)
        return;
    const struct dirent *entry;
    while ((entry = readdir(dir)) != NULL)
        u->fds += entry->d_name[0] != '.';
    closedir(dir);
}

static void add_tree(pid_t pid, enum proc_detail detail, struct proc_usage *u)
{
    read_stat(pid, u);
    if (detail == PROC_FULL) {
        read_pss(pid, u);
        count_fds(pid, u);
    }
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return;
    int child;
    while (fscanf(f, "%d", &child) == 1)
        add_tree(child, detail, u);
    fclose(f);
}

struct proc_usage proc_read(pid_t pid, enum proc_detail detail)
{
    struct proc_usage u = {0};
    if (pid > 0)
        add_tree(pid, detail, &u);
    return u;
}

double self_cpu_s(void)
{
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
           (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e6;
}

long self_preempted(void)
{
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    return r.ru_nivcsw;
}
