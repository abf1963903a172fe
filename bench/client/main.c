#include "modes.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

static const struct {
    const char *name;
    void (*run)(const struct options *);
} MODES[] = {
    {"stream", mode_stream}, {"closed", mode_closed}, {"rps", mode_closed},
    {"idle", mode_idle},     {"cut", mode_cut},
};

static int room_for(long connections)
{
    struct rlimit limit;
    rlim_t need = (rlim_t)connections + 64;
    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur >= need)
        return 0;
    limit.rlim_cur = need;
    if (limit.rlim_max < need)
        limit.rlim_max = need;
    return setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int argc, char **argv)
{
    struct options o = options_parse(argc, argv);
    signal(SIGPIPE, SIG_IGN);
    if (room_for(o.streams) != 0) {
        perror("client: open file limit");
        return 1;
    }
    if (o.cpu >= 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET((size_t)o.cpu, &set);
        if (sched_setaffinity(0, sizeof set, &set) != 0) {
            perror("client: --cpu");
            return 1;
        }
    }
    for (size_t i = 0; i < sizeof MODES / sizeof MODES[0]; i++) {
        if (strcmp(o.mode, MODES[i].name) == 0) {
            MODES[i].run(&o);
            return 0;
        }
    }
    fprintf(stderr, "client: no such mode: %s\n", o.mode);
    return 2;
}
