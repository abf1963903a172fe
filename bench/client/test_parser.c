/* Feeds each response cut at every byte, in every piece size, and byte by byte:
 * the counts must not depend on where recv() happened to cut. */
#include "hist.h"
#include "parser.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int checks, failures;

static void expect(bool ok, const char *what, const char *name, size_t at)
{
    checks++;
    if (!ok) {
        failures++;
        fprintf(stderr, "FAIL %s: %s (cut %zu)\n", name, what, at);
    }
}

struct recorded {
    const char *name;
    char *bytes;
    size_t len;
    uint64_t tokens, events, body;
    bool done, eof;
};

static void verify(const struct recorded *r, struct parser *p, size_t at)
{
    if (r->eof) {
        expect(p->state == PARSE_UNTIL_CLOSE, "open until the close", r->name, at);
        parser_eof(p);
    }
    expect(p->state == PARSE_COMPLETE, "complete", r->name, at);
    expect(p->status == 200, "status", r->name, at);
    expect(p->tokens == r->tokens, "tokens", r->name, at);
    expect(p->events == r->events, "events", r->name, at);
    expect(p->body_bytes == r->body, "body bytes", r->name, at);
    expect(p->done == r->done, "[DONE]", r->name, at);
}

/* Each piece lives in its own exact allocation, so that a read past it is caught. */
static void feed_copy(struct parser *p, const char *data, size_t len)
{
    char *copy = malloc(len ? len : 1);
    if (copy == NULL)
        abort();
    memcpy(copy, data, len);
    parser_feed(p, copy, len);
    free(copy);
}

static void every_cut(const struct recorded *r)
{
    struct parser p;
    parser_init(&p);
    for (size_t cut = 0; cut <= r->len; cut++) {
        parser_reset(&p);
        feed_copy(&p, r->bytes, cut);
        feed_copy(&p, r->bytes + cut, r->len - cut);
        verify(r, &p, cut);
    }
    for (size_t piece = 1; piece <= r->len; piece++) {
        parser_reset(&p);
        for (size_t i = 0; i < r->len; i += piece)
            feed_copy(&p, r->bytes + i, r->len - i < piece ? r->len - i : piece);
        verify(r, &p, piece);
    }
    parser_free(&p);
}

static const char STREAM[] =
    ": connected\n\n"
    "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\","
    "\"content\":\"\"}}]}\n\n"
    "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Fresh\"}}]}\n\n"
    "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" \\\"\"}}]}\n\n"
    "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\\n\\n\"}}]}\n\n"
    ": ping\n\n"
    "data: {\"id\": \"c1\", \"choices\": [{\"delta\": {\"content\": \"spaced\"}}]}\n\n"
    "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":null}}]}\n\n"
    "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"so\"}}]}\n\n"
    "data: {\"id\":\"c1\",\"choices\":[{\"delta\":{\"content\":\"\\\"content\\\":\\\"x\\\"\"}}]}\n\n"
    "data: {\"id\":\"c1\",\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
    "event: note\ndata:{\"content\":\"no space after the colon\"}\nid: 7\n\n"
    "data: {\"choices\":[],\"usage\":{\"completion_tokens\":7}}\n\n"
    "data: [DONE]\n\n";
enum { STREAM_TOKENS = 7, STREAM_EVENTS = 12 };

static const char HEAD[] = "HTTP/1.1 200 OK\r\nserver: test\r\ncontent-type: text/event-stream; "
                           "charset=utf-8\r\n";

/* The stream as a chunked response whose chunks hold `size` bytes each; 0 puts each
 * event in a chunk of its own. */
static struct recorded chunked(const char *name, const char *stream, size_t size)
{
    struct recorded r = {.name = name, .tokens = STREAM_TOKENS, .events = STREAM_EVENTS,
                         .body = strlen(stream), .done = true};
    FILE *f = open_memstream(&r.bytes, &r.len);
    if (f == NULL)
        abort();
    fprintf(f, "HTTP/1.1 100 Continue\r\n\r\n%sTransfer-Encoding: chunked\r\n\r\n", HEAD);
    const char *s = stream;
    while (*s != '\0') {
        size_t n = size;
        if (n == 0)
            n = (size_t)(strstr(s, "\n\n") - s) + 2;
        if (n > strlen(s))
            n = strlen(s);
        fprintf(f, "%zX%s\r\n%.*s\r\n", n, n % 2 ? ";ext=1" : "", (int)n, s);
        s += n;
    }
    fprintf(f, "0\r\nx-trailer: 1\r\n\r\n");
    fclose(f);
    return r;
}

static struct recorded plain(const char *name, const char *head, const char *text, bool sse)
{
    struct recorded r = {.name = name, .body = strlen(text), .done = sse, .eof = sse,
                         .tokens = sse ? STREAM_TOKENS : 0, .events = sse ? STREAM_EVENTS : 0};
    if (asprintf(&r.bytes, "%s\r\n%s", head, text) < 0)
        abort();
    r.len = strlen(r.bytes);
    return r;
}

static char *with_crlf(const char *s)
{
    char *out = malloc(2 * strlen(s) + 1), *o = out;
    if (out == NULL)
        abort();
    for (; *s != '\0'; s++) {
        if (*s == '\n')
            *o++ = '\r';
        *o++ = *s;
    }
    *o = '\0';
    return out;
}

static void refuses(const char *name, const char *bytes)
{
    struct parser p;
    parser_init(&p);
    parser_feed(&p, bytes, strlen(bytes));
    parser_eof(&p);
    expect(p.state == PARSE_ERROR, "refused", name, 0);
    parser_free(&p);
}

static void histogram(void)
{
    static struct hist h;
    expect(hist_quantile(&h, 0.5) < 0, "empty", "hist", 0);
    for (int64_t us = 1; us <= 1000; us++)
        hist_add(&h, us * 1000, 2);
    double p50 = hist_quantile(&h, 0.5), p99 = hist_quantile(&h, 0.99);
    expect(h.count == 2000 && h.max == 1000000, "count and maximum", "hist", 0);
    expect(p50 > 500e3 * 0.995 && p50 < 501e3 * 1.005, "p50", "hist", 0);
    expect(p99 > 990e3 * 0.995 && p99 < 991e3 * 1.005, "p99", "hist", 0);
}

int main(void)
{
    char *crlf = with_crlf(STREAM);
    char until_close[256];
    snprintf(until_close, sizeof until_close, "%sConnection: close\r\n", HEAD);
    struct recorded all[] = {
        chunked("an event a chunk", STREAM, 0),
        chunked("one chunk", STREAM, sizeof STREAM),
        chunked("chunks of 7", STREAM, 7),
        chunked("CRLF lines, chunks of 100", crlf, 100),
        plain("until close", until_close, STREAM, true),
        plain("JSON with a length",
              "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nContent-Length: 43\r\n",
              "{\"choices\":[{\"message\":{\"content\":\"Yes\"}}]}", false),
        plain("no body", "HTTP/1.1 200 OK\r\ncontent-length:0\r\n", "", false),
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        every_cut(&all[i]);
        free(all[i].bytes);
    }
    free(crlf);

    refuses("not HTTP", "SSH-2.0-x\r\n\r\n");
    refuses("chunk size not hexadecimal",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n");
    refuses("empty chunk size", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\r\n");
    refuses("chunk longer than its size",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nabc\r\n0\r\n\r\n");
    refuses("cut short", "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc");
    refuses("no last chunk", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n");
    refuses("bytes after the end", "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nab");
    histogram();

    printf("%d passed, %d failed\n", checks - failures, failures);
    return failures > 0;
}
