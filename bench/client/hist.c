#include "hist.h"

static unsigned bucket_of(uint64_t v)
{
    const uint64_t sub = UINT64_C(1) << HIST_SUB_BITS;
    if (v < sub)
        return (unsigned)v;
    unsigned octave = 63u - (unsigned)__builtin_clzll(v) - HIST_SUB_BITS;
    unsigned index = ((octave + 1) << HIST_SUB_BITS) + (unsigned)((v >> octave) - sub);
    return index < HIST_SIZE ? index : HIST_SIZE - 1;
}

static double middle_of(unsigned index)
{
    const unsigned sub = 1u << HIST_SUB_BITS;
    if (index < sub)
        return index;
    unsigned octave = (index >> HIST_SUB_BITS) - 1;
    uint64_t low = (uint64_t)(sub + (index & (sub - 1))) << octave;
    return (double)low + ((double)(UINT64_C(1) << octave) - 1) / 2;
}

void hist_add(struct hist *h, int64_t ns, uint64_t times)
{
    if (ns < 0)
        ns = 0;
    h->bucket[bucket_of((uint64_t)ns)] += times;
    h->count += times;
    if (ns > h->max)
        h->max = ns;
}

double hist_quantile(const struct hist *h, double q)
{
    if (h->count == 0)
        return -1;
    uint64_t rank = (uint64_t)(q * (double)(h->count - 1));
    uint64_t seen = 0;
    for (unsigned i = 0; i < HIST_SIZE; i++) {
        seen += h->bucket[i];
        if (seen > rank)
            return middle_of(i);
    }
    return (double)h->max;
}
