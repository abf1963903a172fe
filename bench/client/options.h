/* The command line, and the one request every connection sends. */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { HEADERS_MAX = 16 };

struct options {
    const char *mode;
    struct sockaddr_in address;
    const char *host;
    int port;
    const char *model;
    const char *prompt;
    const char *headers[HEADERS_MAX];
    int header_count;
    long streams;          /* streams, or connections of a closed loop */
    long max_tokens;
    double target;         /* tokens a second asked of each stream; 0: no target */
    double connect_rate;   /* new connections a second; 0: all at once */
    double timeout_s;      /* the run is cut here, finished or not */
    double duration_s;     /* closed and rps: length of the measured window */
    double warmup_s;       /* closed and rps: unmeasured start */
    double settle_s;       /* idle and cut: pause before memory is read */
    long rounds;           /* cut */
    pid_t server;
    int cpu;               /* core to stay on; -1: any */
    bool spin;             /* poll without sleeping: finer stamps, a whole core */
    bool streaming;
    bool responses; /* POST /v1/responses instead of chat completions */
    bool messages;  /* POST /v1/messages instead */
};

/* Exits with 2 and a message on a bad command line. */
struct options options_parse(int argc, char **argv);
/* The request's bytes; the caller frees them. */
char *request_bytes(const struct options *o, size_t *len);

#endif
