/* One run's figures: a flat JSON object on stdout, the same as a table on stderr. */
#ifndef BENCH_RESULT_H
#define BENCH_RESULT_H

#include <stdint.h>

void result_begin(const char *mode, const char *model);
/* Not a number (NaN) and infinity become null. */
void result_real(const char *name, double value);
void result_int(const char *name, int64_t value);
void result_end(void);
/* Sorts in place; the value at rank q of n, NaN when n is 0. */
double sorted_quantile(double *values, long n, double q);

#endif
