/* The sockets: one thread, one epoll, one receive buffer for all. */
#ifndef BENCH_LOOP_H
#define BENCH_LOOP_H

#include "options.h"
#include "parser.h"

enum conn_state { CONN_NEW, CONN_CONNECTING, CONN_SENDING, CONN_READING, CONN_CLOSED };
enum ending {
    END_COMPLETE,      /* a whole 200 response, [DONE] included when it streams */
    END_STATUS,        /* a whole response that isn't a 200 */
    END_BROKEN,        /* malformed, or ended early */
    END_CONNECT        /* refused, reset, or no socket to be had */
};

struct conn {
    int fd;
    enum conn_state state;
    uint32_t sent;
    uint32_t index;
    int64_t t_sent;        /* just before the last send() of the request */
    int64_t t_first;       /* first token; 0: none yet */
    int64_t t_last;
    uint64_t tokens;
    struct parser parser;
};

struct loop;
struct hooks {
    /* `count` > 0 tokens were completed by one recv, stamped right after it. */
    void (*tokens)(struct loop *, struct conn *, uint64_t count, int64_t now);
    /* The response is over. The hook closes the connection or sends the next request. */
    void (*end)(struct loop *, struct conn *, enum ending, int64_t now);
};

struct loop {
    const struct options *options;
    struct hooks hooks;
    void *context;
    int epoll;
    char *request;
    size_t request_len;
    struct conn *conns;
    size_t count;
    char *buffer;
    uint64_t recvs;
    uint64_t bytes;
};

void loop_init(struct loop *l, const struct options *o, struct hooks hooks, void *context);
void loop_free(struct loop *l);
/* Opens connection `c` and sends its request as soon as it is up. */
void loop_open(struct loop *l, struct conn *c);
/* Sends the request again on a connection kept alive. */
void loop_again(struct loop *l, struct conn *c);
enum close_how { CLOSE_FIN, CLOSE_RESET };
void loop_close(struct loop *l, struct conn *c, enum close_how how);
/* Handles what is ready, waiting at most until `until` (ns). */
void loop_poll(struct loop *l, int64_t until);

#endif
