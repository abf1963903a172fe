#include "options.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char USAGE[] =
    "usage: client MODE --port N --model NAME [options]\n"
    "modes\n"
    "  stream   N streams of --max-tokens each: rates, gaps, TTFT, CPU\n"
    "  closed   N clients, each sends its next streaming request when one ends: tokens/s\n"
    "  rps      N keep-alive connections, non-streaming requests: requests/s, latency\n"
    "  idle     N streams that wait for their first token: memory a stream\n"
    "  cut      N streams closed abruptly after their first token, --rounds times\n"
    "options\n"
    "  --host A (127.0.0.1)     --streams N (1)        --max-tokens N (100)\n"
    "  --target R tok/s         --connect-rate R /s    --timeout S (60)\n"
    "  --duration S (5)         --warmup S (1)         --settle S (3)\n"
    "  --rounds N (20)          --server-pid P         --cpu C\n"
    "  --header 'K: V'          --prompt TEXT          --spin\n"
    "  --responses              POST /v1/responses, not chat completions\n"
    "  --messages               POST /v1/messages, not chat completions\n";

static _Noreturn void refuse(const char *why, const char *what)
{
    fprintf(stderr, "client: %s: %s\n%s", why, what, USAGE);
    exit(2);
}

static double number(const char *name, const char *text, double low, double high)
{
    char *end;
    errno = 0;
    double v = strtod(text, &end);
    if (errno != 0 || end == text || *end != '\0' || !(v >= low && v <= high))
        refuse(name, text);
    return v;
}

/* JSON is built by hand, so text that would need escaping is refused. */
static const char *plain_text(const char *name, const char *text)
{
    for (const char *s = text; *s != '\0'; s++)
        if (*s == '"' || *s == '\\' || (unsigned char)*s < 0x20)
            refuse(name, text);
    return text;
}

enum { OPT_FIRST = 256, HOST, PORT, MODEL, PROMPT, HEADER, STREAMS, MAX_TOKENS, TARGET,
       CONNECT_RATE, TIMEOUT, DURATION, WARMUP, SETTLE, ROUNDS, SERVER_PID, CPU, SPIN,
       RESPONSES, MESSAGES };

static const struct option LONG[] = {
    {"host", 1, NULL, HOST}, {"port", 1, NULL, PORT}, {"model", 1, NULL, MODEL},
    {"prompt", 1, NULL, PROMPT}, {"header", 1, NULL, HEADER}, {"streams", 1, NULL, STREAMS},
    {"max-tokens", 1, NULL, MAX_TOKENS}, {"target", 1, NULL, TARGET},
    {"connect-rate", 1, NULL, CONNECT_RATE}, {"timeout", 1, NULL, TIMEOUT},
    {"duration", 1, NULL, DURATION}, {"warmup", 1, NULL, WARMUP}, {"settle", 1, NULL, SETTLE},
    {"rounds", 1, NULL, ROUNDS}, {"server-pid", 1, NULL, SERVER_PID}, {"cpu", 1, NULL, CPU},
    {"spin", 0, NULL, SPIN}, {"responses", 0, NULL, RESPONSES},
    {"messages", 0, NULL, MESSAGES}, {NULL, 0, NULL, 0},
};

static void apply(struct options *o, int option, const char *v)
{
    switch (option) {
    case HOST: o->host = v; break;
    case PORT: o->port = (int)number("--port", v, 1, 65535); break;
    case MODEL: o->model = plain_text("--model", v); break;
    case PROMPT: o->prompt = plain_text("--prompt", v); break;
    case HEADER:
        if (o->header_count == HEADERS_MAX)
            refuse("too many headers", v);
        o->headers[o->header_count++] = v;
        break;
    case STREAMS: o->streams = (long)number("--streams", v, 1, 1e6); break;
    case MAX_TOKENS: o->max_tokens = (long)number("--max-tokens", v, 1, 1e9); break;
    case TARGET: o->target = number("--target", v, 0, 1e9); break;
    case CONNECT_RATE: o->connect_rate = number("--connect-rate", v, 0, 1e9); break;
    case TIMEOUT: o->timeout_s = number("--timeout", v, 0.1, 1e6); break;
    case DURATION: o->duration_s = number("--duration", v, 0.1, 1e6); break;
    case WARMUP: o->warmup_s = number("--warmup", v, 0, 1e6); break;
    case SETTLE: o->settle_s = number("--settle", v, 0, 1e6); break;
    case ROUNDS: o->rounds = (long)number("--rounds", v, 1, 1e6); break;
    case SERVER_PID: o->server = (pid_t)number("--server-pid", v, 1, 1e9); break;
    case CPU: o->cpu = (int)number("--cpu", v, 0, 1023); break;
    case SPIN: o->spin = true; break;
    case RESPONSES: o->responses = true; break;
    case MESSAGES: o->messages = true; break;
    default: refuse("unknown option", "see above");
    }
}

struct options options_parse(int argc, char **argv)
{
    struct options o = {.host = "127.0.0.1", .prompt = "Say something long.", .streams = 1,
                        .max_tokens = 100, .timeout_s = 60, .duration_s = 5, .warmup_s = 1,
                        .settle_s = 3, .rounds = 20, .cpu = -1};
    int option;
    while ((option = getopt_long(argc, argv, "", LONG, NULL)) != -1)
        apply(&o, option, optarg);
    if (optind != argc - 1)
        refuse("one mode is needed", "none or several given");
    o.mode = argv[optind];
    o.streaming = strcmp(o.mode, "rps") != 0;
    if (o.port == 0 || o.model == NULL)
        refuse("missing", "--port and --model");
    o.address.sin_family = AF_INET;
    o.address.sin_port = htons((uint16_t)o.port);
    if (inet_pton(AF_INET, o.host, &o.address.sin_addr) != 1)
        refuse("not an IPv4 address", o.host);
    return o;
}

char *request_bytes(const struct options *o, size_t *len)
{
    char *body, *request = NULL;
    const char *chat = "{\"model\":\"%s\",\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}],"
                       "\"stream\":%s,\"max_tokens\":%ld,\"ignore_eos\":true}";
    /* These APIs have no ignore_eos: the length is asked for in Paceline's own field. */
    const char *responses = "{\"model\":\"%s\",\"input\":\"%s\",\"stream\":%s,\"store\":false,"
                            "\"paceline\":{\"output_tokens\":%ld}}";
    const char *messages = "{\"model\":\"%s\",\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}],"
                           "\"stream\":%s,\"max_tokens\":100000,\"paceline\":{\"output_tokens\":%ld}}";
    const char *form = o->responses ? responses : o->messages ? messages : chat;
    const char *path = o->responses ? "responses" : o->messages ? "messages" : "chat/completions";
    int n = asprintf(&body, form, o->model, o->prompt, o->streaming ? "true" : "false",
                     o->max_tokens);
    FILE *f = open_memstream(&request, len);
    if (n < 0 || f == NULL) {
        perror("client");
        exit(1);
    }
    fprintf(f, "POST /v1/%s HTTP/1.1\r\nHost: %s:%d\r\nAuthorization: Bearer bench\r\n"
               "Content-Type: application/json\r\nContent-Length: %d\r\n",
            path, o->host, o->port, n);
    for (int i = 0; i < o->header_count; i++)
        fprintf(f, "%s\r\n", o->headers[i]);
    fprintf(f, "\r\n%s", body);
    fclose(f);
    free(body);
    return request;
}
