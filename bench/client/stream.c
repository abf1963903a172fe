/* Mode `stream`: N streams at once, each of a fixed number of tokens.
 *
 * The steady window opens when the last stream has its first token and shuts when the
 * first stream ends, so that within it every stream is running. Total rate, gaps and
 * CPU are taken there; each stream's own rate is taken over its whole life. */
#include "clock.h"
#include "hist.h"
#include "loop.h"
#include "modes.h"
#include "proc.h"
#include "result.h"

#include <math.h>
#include <stdlib.h>

struct gaps {
    struct hist length;   /* between two tokens of a stream */
    struct hist error;    /* |length - 1 / target| */
};

struct mark {
    int64_t at;           /* 0: not reached */
    uint64_t tokens;
    double server_cpu, client_cpu;
};

struct run {
    int64_t target_gap;   /* ns; 0: no target */
    size_t started, ended, finished, failed, wrong_count;
    uint64_t tokens, token_recvs;
    int64_t first, last;
    struct mark steady_from, steady_to;
    struct gaps all, steady;
};

static bool is_steady(const struct run *r)
{
    return r->steady_from.at != 0 && r->steady_to.at == 0;
}

static struct mark mark_now(const struct loop *l, const struct run *r, int64_t now)
{
    return (struct mark){.at = now, .tokens = r->tokens,
                         .server_cpu = proc_read(l->options->server, PROC_CHEAP).cpu_s,
                         .client_cpu = self_cpu_s()};
}

static void add_gaps(struct gaps *g, int64_t gap, uint64_t merged, int64_t target)
{
    hist_add(&g->length, gap, 1);
    hist_add(&g->error, llabs(gap - target), 1);
    if (merged > 0) {
        hist_add(&g->length, 0, merged);
        hist_add(&g->error, target, merged);
    }
}

static void on_tokens(struct loop *l, struct conn *c, uint64_t count, int64_t now)
{
    struct run *r = l->context;
    uint64_t merged = count - 1;
    if (r->first == 0)
        r->first = now;
    r->last = now;
    r->token_recvs++;
    if (c->t_first == 0) {
        r->started++;
        if (merged > 0) {
            hist_add(&r->all.length, 0, merged);
            hist_add(&r->all.error, r->target_gap, merged);
        }
    } else {
        add_gaps(is_steady(r) ? &r->steady : &r->all, now - c->t_last, merged, r->target_gap);
    }
    r->tokens += count;
    if (c->t_first == 0 && r->started + r->failed == l->count && r->ended == r->failed)
        r->steady_from = mark_now(l, r, now);
}

static void on_end(struct loop *l, struct conn *c, enum ending ending, int64_t now)
{
    struct run *r = l->context;
    r->ended++;
    if (ending == END_COMPLETE) {
        r->finished++;
        r->wrong_count += c->tokens != (uint64_t)l->options->max_tokens;
    } else {
        r->failed++;
    }
    if (is_steady(r))
        r->steady_to = mark_now(l, r, now);
    loop_close(l, c, CLOSE_RESET);
}

static void report_rates(const struct loop *l)
{
    const double target = l->options->target;
    double *rate = malloc(l->count * sizeof *rate);
    double *off = malloc(l->count * sizeof *off);
    double *ttft = malloc(l->count * sizeof *ttft);
    if (rate == NULL || off == NULL || ttft == NULL)
        abort();
    long rates = 0, offs = 0, ttfts = 0;
    for (size_t i = 0; i < l->count; i++) {
        const struct conn *c = &l->conns[i];
        if (c->t_first != 0)
            ttft[ttfts++] = (double)(c->t_first - c->t_sent) / 1e6;
        /* A stream that never got two tokens apart has no rate: it is wholly off. */
        double own = 0;
        if (c->t_last > c->t_first)
            own = (double)(c->tokens - 1) * 1e9 / (double)(c->t_last - c->t_first);
        rate[rates++] = own;
        off[offs++] = target > 0 ? 100 * fabs(own / target - 1) : NAN;
    }
    if (target <= 0)
        offs = 0;
    result_real("rate_median", sorted_quantile(rate, rates, 0.5));
    result_real("rate_min", sorted_quantile(rate, rates, 0));
    result_real("rate_max", sorted_quantile(rate, rates, 1));
    result_real("rate_off_median_pct", sorted_quantile(off, offs, 0.5));
    result_real("rate_off_p99_pct", sorted_quantile(off, offs, 0.99));
    result_real("rate_off_worst_pct", sorted_quantile(off, offs, 1));
    result_real("ttft_min_ms", sorted_quantile(ttft, ttfts, 0));
    result_real("ttft_p50_ms", sorted_quantile(ttft, ttfts, 0.5));
    result_real("ttft_p99_ms", sorted_quantile(ttft, ttfts, 0.99));
    result_real("ttft_max_ms", sorted_quantile(ttft, ttfts, 1));
    free(rate);
    free(off);
    free(ttft);
}

static double or_nan(double v)
{
    return v < 0 ? NAN : v;
}

static void report_gaps(const struct run *r)
{
    /* No steady window (some stream never started): all gaps there were. */
    const struct gaps *g = r->steady.length.count > 0 ? &r->steady : &r->all;
    bool has = r->target_gap > 0 && g->error.count > 0;
    result_real("gap_p50_ms", or_nan(hist_quantile(&g->length, 0.5) / 1e6));
    result_real("gap_p99_ms", or_nan(hist_quantile(&g->length, 0.99) / 1e6));
    result_real("gap_max_ms", g->length.count > 0 ? (double)g->length.max / 1e6 : NAN);
    result_real("gap_off_p50_ms", has ? hist_quantile(&g->error, 0.5) / 1e6 : NAN);
    result_real("gap_off_p99_ms", has ? hist_quantile(&g->error, 0.99) / 1e6 : NAN);
    result_real("tokens_per_recv", (double)r->tokens / (double)r->token_recvs);
}

static void report_steady(const struct run *r)
{
    const struct mark *a = &r->steady_from, *b = &r->steady_to;
    double s = a->at != 0 ? (double)(b->at - a->at) / 1e9 : 0;
    result_real("steady_s", s);
    result_real("tok_per_s_steady", s > 0 ? (double)(b->tokens - a->tokens) / s : NAN);
    result_real("server_cpu_steady", s > 0 ? (b->server_cpu - a->server_cpu) / s : NAN);
    result_real("client_cpu_steady", s > 0 ? (b->client_cpu - a->client_cpu) / s : NAN);
}

void mode_stream(const struct options *o)
{
    struct run *r = calloc(1, sizeof *r);
    struct loop l;
    if (r == NULL)
        abort();
    if (o->target > 0)
        r->target_gap = (int64_t)(1e9 / o->target + 0.5);
    loop_init(&l, o, (struct hooks){on_tokens, on_end}, r);
    struct proc_usage before = proc_read(o->server, PROC_FULL);
    double client_before = self_cpu_s();
    int64_t rss_peak = before.rss;
    const int64_t begin = now_ns(), deadline = begin + (int64_t)(o->timeout_s * 1e9);
    int64_t sample_at = begin;
    size_t opened = 0;

    for (int64_t now = begin; r->ended < l.count && now < deadline; now = now_ns()) {
        int64_t until = deadline;
        while (opened < l.count) {
            int64_t due = begin;
            if (o->connect_rate > 0)
                due += (int64_t)((double)opened * 1e9 / o->connect_rate);
            if (due > now) {
                until = due;
                break;
            }
            loop_open(&l, &l.conns[opened++]);
        }
        if (now >= sample_at) {
            struct proc_usage u = proc_read(o->server, PROC_CHEAP);
            rss_peak = u.rss > rss_peak ? u.rss : rss_peak;
            sample_at = now + NS_PER_S / 4;
        }
        loop_poll(&l, until < sample_at ? until : sample_at);
    }
    const int64_t end = now_ns();
    if (is_steady(r))
        r->steady_to = mark_now(&l, r, end);
    struct proc_usage after = proc_read(o->server, PROC_FULL);
    double wall = (double)(end - begin) / 1e9;

    result_begin(o->mode, o->model);
    result_int("streams", o->streams);
    result_int("started", (int64_t)r->started);
    result_int("finished", (int64_t)r->finished);
    result_int("failed", (int64_t)r->failed);
    result_int("cut_by_timeout", (int64_t)(l.count - r->ended));
    result_int("wrong_token_count", (int64_t)r->wrong_count);
    result_int("tokens", (int64_t)r->tokens);
    result_real("wall_s", wall);
    result_real("target", o->target);
    result_real("tok_per_s_overall", (double)r->tokens * 1e9 / (double)(r->last - r->first));
    report_steady(r);
    report_rates(&l);
    report_gaps(r);
    result_real("bytes_per_token", (double)l.bytes / (double)r->tokens);
    result_real("server_cpu_overall", (after.cpu_s - before.cpu_s) / wall);
    result_real("server_rss_peak_mb", (double)rss_peak / 1e6);
    result_real("server_pss_before_mb", (double)before.pss / 1e6);
    result_real("server_pss_after_mb", (double)after.pss / 1e6);
    result_real("client_cpu_overall", (self_cpu_s() - client_before) / wall);
    result_int("client_preempted", self_preempted());
    result_end();
    loop_free(&l);
    free(r);
}
