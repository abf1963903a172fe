/* An incremental HTTP/1.1 response parser with an SSE token counter on top.
 *
 * Bytes go in as recv() gave them, cut anywhere. No socket and no clock in here:
 * the caller stamps the time of the recv and reads how far the counters moved. */
#ifndef BENCH_PARSER_H
#define BENCH_PARSER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum parse_state {
    PARSE_HEAD,
    PARSE_CHUNK_SIZE,
    PARSE_CHUNK_EXT,
    PARSE_CHUNK_DATA,
    PARSE_CHUNK_END,
    PARSE_TRAILER,
    PARSE_LENGTH,
    PARSE_UNTIL_CLOSE,
    PARSE_COMPLETE,
    PARSE_ERROR
};

enum { HEAD_LINE_MAX = 128 };

struct parser {
    enum parse_state state;
    int status;
    bool chunked;
    bool has_length;
    bool event_stream;
    bool close;

    bool size_digits;     /* the chunk-size line has shown a digit */
    uint64_t remaining;   /* bytes left in the chunk or in the Content-Length */

    char head_line[HEAD_LINE_MAX];
    size_t head_len;
    size_t head_total;    /* length of the line, kept bytes or not */
    bool first_line;

    char *carry;          /* an SSE line that a recv or a chunk cut in two */
    size_t carry_len;
    size_t carry_cap;

    bool event_data;      /* the event being read has a data line ... */
    bool event_token;     /* ... and that line carries text */
    bool event_done;
    size_t hint;          /* where the last data line had its text key */
    int hint_key;

    uint64_t events;      /* SSE events with data, [DONE] included */
    uint64_t tokens;      /* those whose delta carries non-empty text */
    uint64_t body_bytes;
    bool done;            /* [DONE] was seen */
};

void parser_init(struct parser *p);
/* Ready for the next response on the same connection; counters start again at 0. */
void parser_reset(struct parser *p);
void parser_free(struct parser *p);
/* Returns the state reached. Bytes after a complete response are an error. */
enum parse_state parser_feed(struct parser *p, const char *data, size_t len);
/* The peer closed. Returns PARSE_COMPLETE when that is a legal end. */
enum parse_state parser_eof(struct parser *p);

#endif
