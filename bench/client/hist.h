/* A log-linear histogram of nanoseconds: fixed size, relative error below 0.4 %.
 * Runs of millions of tokens a second can't keep an array of gaps. */
#ifndef BENCH_HIST_H
#define BENCH_HIST_H

#include <stdint.h>

enum { HIST_SUB_BITS = 7, HIST_OCTAVES = 36, HIST_SIZE = (HIST_OCTAVES + 1) << HIST_SUB_BITS };

struct hist {
    uint64_t count;
    int64_t max;
    uint64_t bucket[HIST_SIZE];
};

void hist_add(struct hist *h, int64_t ns, uint64_t times);
/* The value below which the share q (0 to 1) of the samples lies; -1 when empty. */
double hist_quantile(const struct hist *h, double q);

#endif
