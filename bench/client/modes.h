/* What the client can do. Each mode prints its figures through result.h. */
#ifndef BENCH_MODES_H
#define BENCH_MODES_H

#include "options.h"

void mode_stream(const struct options *o);
void mode_closed(const struct options *o); /* also rps: the same loop, other request */
void mode_idle(const struct options *o);
void mode_cut(const struct options *o);

#endif
