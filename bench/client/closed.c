/* Modes `closed` and `rps`: each connection sends its next request when a response ends. */
#include "clock.h"
#include "hist.h"
#include "loop.h"
#include "modes.h"
#include "proc.h"
#include "result.h"

#include <math.h>
#include <stdlib.h>

struct totals {
    uint64_t tokens, requests, failed, reconnects;
};

struct run {
    struct totals now;
    bool measuring;
    struct hist latency;  /* request sent to response complete */
};

static void on_tokens(struct loop *l, struct conn *c, uint64_t count, int64_t now)
{
    struct run *r = l->context;
    (void)c;
    (void)now;
    r->now.tokens += count;
}

static void on_end(struct loop *l, struct conn *c, enum ending ending, int64_t now)
{
    struct run *r = l->context;
    if (ending == END_COMPLETE) {
        r->now.requests++;
        if (r->measuring)
            hist_add(&r->latency, now - c->t_sent, 1);
        if (!c->parser.close) {
            loop_again(l, c);
            return;
        }
    } else {
        r->now.failed++;
    }
    loop_close(l, c, CLOSE_RESET);
    r->now.reconnects++;
}

static void run_until(struct loop *l, int64_t until)
{
    for (int64_t now = now_ns(); now < until; now = now_ns()) {
        /* Reopened here, not in the hook: a refused connect would recurse. */
        for (size_t i = 0; i < l->count; i++)
            if (l->conns[i].state == CONN_CLOSED || l->conns[i].state == CONN_NEW)
                loop_open(l, &l->conns[i]);
        int64_t slice = now + NS_PER_S / 10;
        loop_poll(l, slice < until ? slice : until);
    }
}

void mode_closed(const struct options *o)
{
    struct run *r = calloc(1, sizeof *r);
    struct loop l;
    if (r == NULL)
        abort();
    loop_init(&l, o, (struct hooks){on_tokens, on_end}, r);
    run_until(&l, now_ns() + (int64_t)(o->warmup_s * 1e9));

    struct totals start = r->now;
    struct proc_usage before = proc_read(o->server, PROC_CHEAP);
    double client_before = self_cpu_s();
    uint64_t bytes_before = l.bytes;
    int64_t begin = now_ns();
    r->measuring = true;
    run_until(&l, begin + (int64_t)(o->duration_s * 1e9));
    double s = (double)(now_ns() - begin) / 1e9;
    struct totals end = r->now;
    struct proc_usage after = proc_read(o->server, PROC_FULL);

    result_begin(o->mode, o->model);
    result_int("clients", o->streams);
    result_real("wall_s", s);
    result_int("requests", (int64_t)(end.requests - start.requests));
    result_int("failed", (int64_t)(end.failed - start.failed));
    result_int("reconnects", (int64_t)(end.reconnects - start.reconnects));
    result_real("requests_per_s", (double)(end.requests - start.requests) / s);
    result_real("tok_per_s", o->streaming ? (double)(end.tokens - start.tokens) / s : NAN);
    result_real("mb_per_s", (double)(l.bytes - bytes_before) / s / 1e6);
    bool any = r->latency.count > 0;
    result_real("latency_p50_ms", any ? hist_quantile(&r->latency, 0.5) / 1e6 : NAN);
    result_real("latency_p99_ms", any ? hist_quantile(&r->latency, 0.99) / 1e6 : NAN);
    result_real("latency_max_ms", any ? (double)r->latency.max / 1e6 : NAN);
    result_real("server_cpu", (after.cpu_s - before.cpu_s) / s);
    result_real("server_rss_mb", (double)after.rss / 1e6);
    result_real("server_pss_mb", (double)after.pss / 1e6);
    result_real("client_cpu", (self_cpu_s() - client_before) / s);
    result_int("client_preempted", self_preempted());
    result_end();
    loop_free(&l);
    free(r);
}
