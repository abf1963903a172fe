#include "result.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void result_begin(const char *mode, const char *model)
{
    printf("{\"mode\":\"%s\",\"model\":\"%s\"", mode, model);
    fprintf(stderr, "%s %s\n", mode, model);
}

void result_real(const char *name, double value)
{
    if (isfinite(value)) {
        printf(",\"%s\":%.6g", name, value);
        fprintf(stderr, "  %-26s %14.6g\n", name, value);
    } else {
        printf(",\"%s\":null", name);
        fprintf(stderr, "  %-26s %14s\n", name, "-");
    }
}

void result_int(const char *name, int64_t value)
{
    printf(",\"%s\":%lld", name, (long long)value);
    fprintf(stderr, "  %-26s %14lld\n", name, (long long)value);
}

void result_end(void)
{
    printf("}\n");
    fflush(stdout);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double sorted_quantile(double *values, long n, double q)
{
    if (n == 0)
        return NAN;
    qsort(values, (size_t)n, sizeof *values, ascending);
    return values[(long)(q * (double)(n - 1) + 0.5)];
}
