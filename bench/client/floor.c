/* The floor: the least a server can do and still send the same bytes at the same times.
 *
 * One thread, one epoll, one timer; token i of a stream is due at first + i / rate; all
 * of a stream's due tokens leave in one send. It knows nothing else of the API. It tells
 * what the machine and the client can hold, and is the known source the client is tested
 * against. A model's name ends in its rate ("flat-750"); 0 or "instant" doesn't wait. */
#include "clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { IN_MAX = 4096, BURST_MAX = 256, EVENTS_MAX = 512, TICK_NS = 250000 };

static const char EVENT[] =
    "data: {\"id\":\"chatcmpl-0123456789abcdef\",\"object\":\"chat.completion.chunk\","
    "\"created\":1700000000,\"model\":\"floor\",\"choices\":[{\"index\":0,\"delta\":{\"content\":"
    "\" token\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n";
static const char HEAD[] = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
                           "transfer-encoding: chunked\r\n\r\n";
static const char TAIL[] = "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n";
static const char WHOLE[] =
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 61\r\n\r\n"
    "{\"choices\":[{\"message\":{\"role\":\"assistant\",\"content\":\"ok\"}}]}";

struct stream {
    int fd;
    char in[IN_MAX];
    size_t in_len;
    bool active, headed;
    long sent, total;
    int64_t first;
    double gap;           /* ns between two tokens; 0: no pacing */
    const char *pending;  /* the unsent rest of a send that fell short */
    size_t pending_len;
    char *pending_copy;
    struct stream *next, *prev;
};

static struct stream active = {.next = &active, .prev = &active};
static char events[BURST_MAX * sizeof EVENT + 64];

static void deactivate(struct stream *s)
{
    if (!s->active)
        return;
    s->active = false;
    s->next->prev = s->prev;
    s->prev->next = s->next;
}

/* Freed after the batch: epoll may have reported the same stream further on in it. */
static struct stream *dropped;

static void drop(struct stream *s)
{
    if (s->fd < 0)
        return;
    deactivate(s);
    close(s->fd);
    s->fd = -1;
    s->next = dropped;
    dropped = s;
}

static void free_dropped(void)
{
    while (dropped != NULL) {
        struct stream *s = dropped;
        dropped = s->next;
        free(s->pending_copy);
        free(s);
    }
}

/* False when the peer is gone. What doesn't fit is kept and sent first next time. */
static bool push(struct stream *s, const char *data, size_t len)
{
    ssize_t n = send(s->fd, data, len, MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN)
        return false;
    size_t done = n < 0 ? 0 : (size_t)n;
    if (done < len) {
        char *rest = malloc(len - done);
        if (rest == NULL)
            return false;
        memcpy(rest, data + done, len - done);
        free(s->pending_copy);
        s->pending = s->pending_copy = rest;
        s->pending_len = len - done;
    } else {
        s->pending_len = 0;
    }
    return true;
}

/* Sends what is due; false when the stream was dropped or is over. */
static bool advance(struct stream *s, int64_t now)
{
    if (s->pending_len > 0) {
        if (!push(s, s->pending, s->pending_len)) {
            drop(s);
            return false;
        }
        if (s->pending_len > 0)
            return true;
    }
    long due = s->total;
    if (now < s->first)
        due = 0;
    else if (s->gap > 0)
        due = (long)((double)(now - s->first) / s->gap) + 1;
    if (due > s->total)
        due = s->total;
    long n = due - s->sent > BURST_MAX ? BURST_MAX : due - s->sent;
    if (n <= 0)
        return true;
    static char out[sizeof events + sizeof HEAD + sizeof TAIL + 64];
    size_t body = (size_t)n * (sizeof EVENT - 1);
    size_t len = 0;
    if (!s->headed)
        len = (size_t)sprintf(out, "%s", HEAD);
    s->headed = true;
    len += (size_t)sprintf(out + len, "%zx\r\n", body);
    memcpy(out + len, events, body);
    len += body;
    len += (size_t)sprintf(out + len, "\r\n");
    s->sent += n;
    if (s->sent == s->total)
        len += (size_t)sprintf(out + len, "%s", TAIL);
    if (!push(s, out, len)) {
        drop(s);
        return false;
    }
    if (s->sent == s->total && s->pending_len == 0) {
        deactivate(s);
        return false;
    }
    return true;
}

static double number_after(const char *text, const char *key, double fallback)
{
    const char *hit = strcasestr(text, key);
    return hit != NULL ? atof(hit + strlen(key)) : fallback;
}

static void begin(struct stream *s, int64_t now)
{
    const char *model = strstr(s->in, "\"model\":\"");
    const char *end = model != NULL ? strchr(model + 9, '"') : NULL;
    const char *digits = end;
    while (digits != NULL && digits > model && digits[-1] >= '0' && digits[-1] <= '9')
        digits--;
    double rate = digits != NULL ? atof(digits) : 0;
    s->gap = rate > 0 ? 1e9 / rate : 0;
    s->total = (long)number_after(s->in, "\"max_tokens\":", 100);
    s->first = now + (int64_t)(1e6 * number_after(s->in, "x-paceline-ttft-ms:", 0));
    s->sent = 0;
    s->headed = false;
    s->active = true;
    s->next = active.next;
    s->prev = &active;
    active.next->prev = s;
    active.next = s;
    if (s->gap == 0)
        while (advance(s, now) && s->pending_len == 0 && s->active)
            ;
}

static void readable(struct stream *s)
{
    if (s->fd < 0)
        return;
    ssize_t n = recv(s->fd, s->in + s->in_len, IN_MAX - 1 - s->in_len, 0);
    if (n <= 0) {
        if (n == 0 || errno != EAGAIN)
            drop(s);
        return;
    }
    s->in_len += (size_t)n;
    s->in[s->in_len] = '\0';
    const char *body = strstr(s->in, "\r\n\r\n");
    if (body == NULL)
        return;
    size_t want = (size_t)(body + 4 - s->in) + (size_t)number_after(s->in, "content-length:", 0);
    if (s->in_len < want)
        return;
    s->in_len = 0;
    if (strstr(body, "\"stream\":true") != NULL)
        begin(s, now_ns());
    else if (!push(s, WHOLE, sizeof WHOLE - 1))
        drop(s);
}

static void accept_all(int listener, int ep)
{
    int fd, one = 1;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        struct stream *s = calloc(1, sizeof *s);
        if (s == NULL)
            abort();
        s->fd = fd;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        struct epoll_event ev = {.events = EPOLLIN, .data.ptr = s};
        epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev);
    }
}

int main(int argc, char **argv)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (argc != 2 || atoi(argv[1]) <= 0) {
        fprintf(stderr, "usage: floor PORT\n");
        return 2;
    }
    at.sin_port = htons((uint16_t)atoi(argv[1]));
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    for (int i = 0; i < BURST_MAX; i++)
        memcpy(events + (size_t)i * (sizeof EVENT - 1), EVENT, sizeof EVENT - 1);

    int one = 1, ep = epoll_create1(EPOLL_CLOEXEC);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    struct itimerspec tick = {{0, TICK_NS}, {0, TICK_NS}};
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (ep < 0 || timer < 0 || bind(listener, (struct sockaddr *)&at, sizeof at) != 0 ||
        listen(listener, 4096) != 0 || timerfd_settime(timer, 0, &tick, NULL) != 0) {
        perror("floor");
        return 1;
    }
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = &listener};
    epoll_ctl(ep, EPOLL_CTL_ADD, listener, &ev);
    ev.data.ptr = &timer;
    epoll_ctl(ep, EPOLL_CTL_ADD, timer, &ev);

    static struct epoll_event ready[EVENTS_MAX];
    for (;;) {
        int n = epoll_wait(ep, ready, EVENTS_MAX, -1);
        for (int i = 0; i < n; i++) {
            if (ready[i].data.ptr == &listener) {
                accept_all(listener, ep);
            } else if (ready[i].data.ptr == &timer) {
                uint64_t ticks;
                if (read(timer, &ticks, sizeof ticks) < 0)
                    continue;
                for (struct stream *s = active.next, *next; s != &active; s = next) {
                    next = s->next;
                    advance(s, now_ns());
                }
            } else {
                readable(ready[i].data.ptr);
            }
        }
        free_dropped();
    }
}
