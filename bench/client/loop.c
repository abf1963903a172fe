#include "loop.h"

#include "clock.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BUFFER_SIZE = 256 * 1024, EVENTS_MAX = 1024 };

static _Noreturn void die(const char *what)
{
    perror(what);
    exit(1);
}

void loop_init(struct loop *l, const struct options *o, struct hooks hooks, void *context)
{
    *l = (struct loop){.options = o, .hooks = hooks, .context = context};
    l->count = (size_t)o->streams;
    l->request = request_bytes(o, &l->request_len);
    l->conns = calloc(l->count, sizeof *l->conns);
    l->buffer = malloc(BUFFER_SIZE);
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (l->conns == NULL || l->buffer == NULL || l->epoll < 0)
        die("client");
    for (size_t i = 0; i < l->count; i++) {
        l->conns[i].fd = -1;
        l->conns[i].index = (uint32_t)i;
        parser_init(&l->conns[i].parser);
    }
}

void loop_free(struct loop *l)
{
    for (size_t i = 0; i < l->count; i++) {
        loop_close(l, &l->conns[i], CLOSE_RESET);
        parser_free(&l->conns[i].parser);
    }
    close(l->epoll);
    free(l->conns);
    free(l->buffer);
    free(l->request);
}

static void watch(struct loop *l, struct conn *c, uint32_t events, int op)
{
    struct epoll_event ev = {.events = events, .data.ptr = c};
    if (epoll_ctl(l->epoll, op, c->fd, &ev) != 0)
        die("epoll_ctl");
}

void loop_open(struct loop *l, struct conn *c)
{
    int one = 1;
    parser_reset(&c->parser);
    c->sent = 0;
    c->t_sent = c->t_first = c->t_last = 0;
    c->tokens = 0;
    c->state = CONN_CONNECTING;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->fd < 0) {
        l->hooks.end(l, c, END_CONNECT, now_ns());
        return;
    }
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    const struct sockaddr *to = (const struct sockaddr *)&l->options->address;
    if (connect(c->fd, to, sizeof l->options->address) != 0 && errno != EINPROGRESS) {
        l->hooks.end(l, c, END_CONNECT, now_ns());
        return;
    }
    watch(l, c, EPOLLOUT, EPOLL_CTL_ADD);
}

void loop_close(struct loop *l, struct conn *c, enum close_how how)
{
    (void)l;
    c->state = CONN_CLOSED;
    if (c->fd < 0)
        return;
    if (how == CLOSE_RESET) {
        /* Also keeps thousands of local ports out of TIME_WAIT between runs. */
        struct linger reset = {.l_onoff = 1, .l_linger = 0};
        setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    }
    close(c->fd);
    c->fd = -1;
}

static void send_request(struct loop *l, struct conn *c)
{
    while (c->sent < l->request_len) {
        /* Before, not after: on loopback the server may be running when send() returns. */
        c->t_sent = now_ns();
        ssize_t n = send(c->fd, l->request + c->sent, l->request_len - c->sent, MSG_NOSIGNAL);
        if (n < 0) {
            if (errno != EAGAIN)
                l->hooks.end(l, c, END_CONNECT, now_ns());
            return;
        }
        c->sent += (uint32_t)n;
    }
    if (c->state == CONN_SENDING)
        watch(l, c, EPOLLIN, EPOLL_CTL_MOD);
    c->state = CONN_READING;
}

void loop_again(struct loop *l, struct conn *c)
{
    parser_reset(&c->parser);
    c->sent = 0;
    c->t_first = c->t_last = 0;
    c->tokens = 0;
    /* READING stays: a request of a few hundred bytes always fits the send buffer. */
    send_request(l, c);
}

static void readable(struct loop *l, struct conn *c)
{
    ssize_t n = recv(c->fd, l->buffer, BUFFER_SIZE, 0);
    int64_t now = now_ns();
    if (n < 0) {
        if (errno != EAGAIN && errno != EINTR)
            l->hooks.end(l, c, END_BROKEN, now);
        return;
    }
    enum parse_state state;
    uint64_t before = c->parser.tokens;
    if (n == 0) {
        state = parser_eof(&c->parser);
    } else {
        l->recvs++;
        l->bytes += (uint64_t)n;
        state = parser_feed(&c->parser, l->buffer, (size_t)n);
    }
    uint64_t count = c->parser.tokens - before;
    if (count > 0) {
        l->hooks.tokens(l, c, count, now);
        if (c->state != CONN_READING)
            return; /* the hook closed it */
        if (c->t_first == 0)
            c->t_first = now;
        c->t_last = now;
        c->tokens += count;
    }
    if (state == PARSE_ERROR)
        l->hooks.end(l, c, END_BROKEN, now);
    else if (state == PARSE_COMPLETE && c->parser.status != 200)
        l->hooks.end(l, c, END_STATUS, now);
    else if (state == PARSE_COMPLETE)
        l->hooks.end(l, c, l->options->streaming && !c->parser.done ? END_BROKEN : END_COMPLETE,
                     now);
}

static void handle(struct loop *l, struct conn *c, uint32_t events)
{
    if (c->state == CONN_CONNECTING) {
        int error = 0;
        socklen_t len = sizeof error;
        getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &len);
        if (error != 0) {
            l->hooks.end(l, c, END_CONNECT, now_ns());
            return;
        }
        c->state = CONN_SENDING;
    }
    if (c->state == CONN_SENDING)
        send_request(l, c);
    else if (c->state == CONN_READING && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        readable(l, c);
}

void loop_poll(struct loop *l, int64_t until)
{
    static struct epoll_event ready[EVENTS_MAX];
    int64_t wait = until - now_ns();
    int timeout = wait <= 0 ? 0 : (int)((wait + NS_PER_MS - 1) / NS_PER_MS);
    int n = epoll_wait(l->epoll, ready, EVENTS_MAX, l->options->spin ? 0 : timeout);
    for (int i = 0; i < n; i++) {
        struct conn *c = ready[i].data.ptr;
        if (c->fd >= 0)
            handle(l, c, ready[i].events);
    }
}
