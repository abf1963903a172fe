/* Modes `idle` and `cut`: what streams cost while they wait, and what they leave behind. */
#include "clock.h"
#include "loop.h"
#include "modes.h"
#include "proc.h"
#include "result.h"

#include <math.h>
#include <stdlib.h>

struct run {
    size_t started, ended, failed, finished;
};

static void on_tokens(struct loop *l, struct conn *c, uint64_t count, int64_t now)
{
    struct run *r = l->context;
    (void)count;
    (void)now;
    r->started += c->t_first == 0;
}

static void on_end(struct loop *l, struct conn *c, enum ending ending, int64_t now)
{
    struct run *r = l->context;
    (void)now;
    r->ended++;
    r->failed += ending != END_COMPLETE;
    r->finished += ending == END_COMPLETE;
    loop_close(l, c, CLOSE_RESET);
}

/* Opens all connections at the pace asked for, polling in between */
static void open_all(struct loop *l)
{
    const double rate = l->options->connect_rate;
    const int64_t begin = now_ns();
    for (size_t i = 0; i < l->count; i++) {
        int64_t due = rate > 0 ? begin + (int64_t)((double)i * 1e9 / rate) : begin;
        while (now_ns() < due)
            loop_poll(l, due);
        loop_open(l, &l->conns[i]);
        loop_poll(l, 0);
    }
}

static void poll_for(struct loop *l, double seconds)
{
    const int64_t until = now_ns() + (int64_t)(seconds * 1e9);
    while (now_ns() < until)
        loop_poll(l, until);
}

static size_t waiting(const struct loop *l)
{
    size_t n = 0;
    for (size_t i = 0; i < l->count; i++)
        n += l->conns[i].state == CONN_READING;
    return n;
}

void mode_idle(const struct options *o)
{
    struct run r = {0};
    struct loop l;
    loop_init(&l, o, (struct hooks){on_tokens, on_end}, &r);
    struct proc_usage before = proc_read(o->server, PROC_FULL);
    const int64_t deadline = now_ns() + (int64_t)(o->timeout_s * 1e9);
    open_all(&l);
    while (waiting(&l) + r.ended < l.count && now_ns() < deadline)
        loop_poll(&l, now_ns() + NS_PER_S / 10);
    poll_for(&l, o->settle_s);
    struct proc_usage held = proc_read(o->server, PROC_FULL);
    double n = (double)waiting(&l);
    poll_for(&l, 1);
    double idle_cpu = proc_read(o->server, PROC_CHEAP).cpu_s - held.cpu_s;

    result_begin(o->mode, o->model);
    result_int("streams", o->streams);
    result_int("waiting", (int64_t)n);
    result_int("started", (int64_t)r.started); /* not 0: they weren't idle */
    result_int("failed", (int64_t)r.failed);
    result_real("server_rss_idle_mb", (double)before.rss / 1e6);
    result_real("server_pss_idle_mb", (double)before.pss / 1e6);
    result_real("server_pss_held_mb", (double)held.pss / 1e6);
    result_real("rss_per_stream_kb", (double)(held.rss - before.rss) / n / 1e3);
    result_real("pss_per_stream_kb", (double)(held.pss - before.pss) / n / 1e3);
    result_int("server_fds_idle", before.fds);
    result_int("server_fds_held", held.fds);
    result_real("server_cpu_waiting", idle_cpu);
    result_end();
    loop_free(&l);
}

void mode_cut(const struct options *o)
{
    struct run r = {0};
    struct loop l;
    loop_init(&l, o, (struct hooks){on_tokens, on_end}, &r);
    struct proc_usage before = proc_read(o->server, PROC_FULL), first = before;
    uint64_t started = 0, failed = 0, unanswered = 0;
    double slowest = 0;
    const int64_t begin = now_ns();

    for (long round = 0; round < o->rounds; round++) {
        int64_t round_begin = now_ns();
        int64_t deadline = round_begin + (int64_t)(o->timeout_s * 1e9);
        r = (struct run){0};
        open_all(&l);
        while (r.started + r.failed < l.count && now_ns() < deadline)
            loop_poll(&l, now_ns() + NS_PER_S / 10);
        started += r.started;
        failed += r.failed;
        if (r.started + r.failed < l.count)
            unanswered += l.count - r.started - r.failed;
        /* Clients vanish both ways: a reset, and a plain close with data on its way. */
        for (size_t i = 0; i < l.count; i++)
            loop_close(&l, &l.conns[i], i % 2 ? CLOSE_RESET : CLOSE_FIN);
        double took = (double)(now_ns() - round_begin) / 1e9;
        slowest = took > slowest ? took : slowest;
        if (round == 0) {
            poll_for(&l, o->settle_s);
            first = proc_read(o->server, PROC_FULL);
        }
    }
    double wall = (double)(now_ns() - begin) / 1e9;
    poll_for(&l, o->settle_s);
    struct proc_usage after = proc_read(o->server, PROC_FULL);
    poll_for(&l, 1);
    double idle_cpu = proc_read(o->server, PROC_CHEAP).cpu_s - after.cpu_s;

    result_begin(o->mode, o->model);
    result_int("streams_per_round", o->streams);
    result_int("rounds", o->rounds);
    result_int("started", (int64_t)started);
    result_int("failed", (int64_t)failed);
    result_int("unanswered", (int64_t)unanswered);
    result_real("wall_s", wall);
    result_real("slowest_round_s", slowest);
    result_int("server_fds_before", before.fds);
    result_int("server_fds_after", after.fds);
    result_real("server_pss_before_mb", (double)before.pss / 1e6);
    result_real("server_pss_first_round_mb", (double)first.pss / 1e6);
    result_real("server_pss_after_mb", (double)after.pss / 1e6);
    result_real("server_cpu_afterwards", idle_cpu);
    result_int("server_processes", after.processes);
    result_end();
    loop_free(&l);
}
