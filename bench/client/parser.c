#include "parser.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Keys whose string value is generated text. Reasoning counts too: a first token
 * on that channel is a first token. A key inside a JSON string has its quotes
 * escaped, so it can't match. */
static const struct {
    const char *text;
    size_t len;
} KEYS[] = {
    {"\"content\":", 10},
    {"\"reasoning_content\":", 20},
    {"\"reasoning\":", 12},
    {"\"delta\":", 8}, /* of a response; a chat chunk's is an object */
    {"\"text\":", 7}, /* of a message, as the next two */
    {"\"thinking\":", 11},
    {"\"partial_json\":", 15},
};
enum { KEY_COUNT = sizeof KEYS / sizeof KEYS[0] };

static const char LAST[] = "{\"type\":\"response.completed\"";
static const char RESPONSE[] = "{\"type\":\"response.";
static const char MESSAGE_LAST[] = "{\"type\":\"message_stop\"}";

void parser_init(struct parser *p)
{
    memset(p, 0, sizeof *p);
    parser_reset(p);
}

void parser_reset(struct parser *p)
{
    char *carry = p->carry;
    size_t cap = p->carry_cap, hint = p->hint;
    int hint_key = p->hint_key;
    memset(p, 0, sizeof *p);
    p->carry = carry;
    p->carry_cap = cap;
    p->hint = hint;
    p->hint_key = hint_key;
    p->state = PARSE_HEAD;
    p->first_line = true;
}

void parser_free(struct parser *p)
{
    free(p->carry);
    p->carry = NULL;
    p->carry_cap = p->carry_len = 0;
}

/* ---- SSE ------------------------------------------------------------------ */

static bool nonempty_string(const char *s, const char *end)
{
    while (s < end && *s == ' ')
        s++;
    return end - s >= 2 && s[0] == '"' && s[1] != '"';
}

static bool carries_text(struct parser *p, const char *s, size_t len)
{
    const char *end = s + len;
    size_t key_len = KEYS[p->hint_key].len;

    /* A stream's events share their prefix, so the key is nearly always where it
     * was in the event before. That makes an event one memcmp, not a search. */
    if (p->hint + key_len < len && memcmp(s + p->hint, KEYS[p->hint_key].text, key_len) == 0 &&
        nonempty_string(s + p->hint + key_len, end))
        return true;

    for (int k = 0; k < KEY_COUNT; k++) {
        const char *from = s;
        const char *hit;
        while ((hit = memmem(from, (size_t)(end - from), KEYS[k].text, KEYS[k].len)) != NULL) {
            from = hit + KEYS[k].len;
            if (nonempty_string(from, end)) {
                p->hint = (size_t)(hit - s);
                p->hint_key = k;
                return true;
            }
        }
    }
    return false;
}

/* A response says its text again when an item and when the whole is done; only its
 * deltas are new. */
static bool says_again(const char *s, size_t len)
{
    enum { TYPE_WITHIN = 96 };
    return len > sizeof RESPONSE && memcmp(s, RESPONSE, sizeof RESPONSE - 1) == 0 &&
           memmem(s, len < TYPE_WITHIN ? len : TYPE_WITHIN, ".delta\"", 7) == NULL;
}

static void sse_line(struct parser *p, const char *s, size_t len)
{
    if (len > 0 && s[len - 1] == '\r')
        len--;
    if (len == 0) {
        if (p->event_data) {
            p->events++;
            p->tokens += p->event_token;
            p->done |= p->event_done;
        }
        p->event_data = p->event_token = p->event_done = false;
        return;
    }
    if (len < 5 || memcmp(s, "data:", 5) != 0)
        return; /* a comment, `event:`, `id:`, `retry:` */
    s += 5;
    len -= 5;
    if (len > 0 && *s == ' ') {
        s++;
        len--;
    }
    p->event_data = true;
    if (len == 6 && memcmp(s, "[DONE]", 6) == 0)
        p->event_done = true;
    else if (len > sizeof LAST && memcmp(s, LAST, sizeof LAST - 1) == 0)
        p->event_done = true; /* a response has no [DONE] */
    else if (len == sizeof MESSAGE_LAST - 1 && memcmp(s, MESSAGE_LAST, len) == 0)
        p->event_done = true; /* nor has a message */
    else if (!says_again(s, len) && carries_text(p, s, len))
        p->event_token = true;
}

static bool carry_append(struct parser *p, const char *s, size_t len)
{
    if (p->carry_len + len > p->carry_cap) {
        size_t cap = p->carry_cap ? p->carry_cap : 512;
        while (cap < p->carry_len + len)
            cap *= 2;
        char *grown = realloc(p->carry, cap);
        if (grown == NULL)
            return false;
        p->carry = grown;
        p->carry_cap = cap;
    }
    memcpy(p->carry + p->carry_len, s, len);
    p->carry_len += len;
    return true;
}

static bool body(struct parser *p, const char *s, size_t len)
{
    const char *end = s + len;
    p->body_bytes += len;
    if (!p->event_stream)
        return true;
    while (s < end) {
        const char *nl = memchr(s, '\n', (size_t)(end - s));
        if (nl == NULL)
            return carry_append(p, s, (size_t)(end - s));
        if (p->carry_len > 0) {
            if (!carry_append(p, s, (size_t)(nl - s)))
                return false;
            sse_line(p, p->carry, p->carry_len);
            p->carry_len = 0;
        } else {
            sse_line(p, s, (size_t)(nl - s));
        }
        s = nl + 1;
    }
    return true;
}

/* ---- HTTP ----------------------------------------------------------------- */

static bool header_is(const char *line, const char *name, const char **value)
{
    size_t len = strlen(name);
    if (strncasecmp(line, name, len) != 0 || line[len] != ':')
        return false;
    *value = line + len + 1;
    while (**value == ' ' || **value == '\t')
        (*value)++;
    return true;
}

static enum parse_state status_line(struct parser *p, const char *line)
{
    if (strncmp(line, "HTTP/1.", 7) != 0 || line[7] == '\0' || line[8] != ' ')
        return PARSE_ERROR;
    p->status = atoi(line + 9);
    p->close = line[7] == '0';
    p->first_line = false;
    return p->status >= 100 && p->status <= 599 ? PARSE_HEAD : PARSE_ERROR;
}

static enum parse_state head_end(struct parser *p)
{
    if (p->status < 200) { /* 100 Continue: the real response follows */
        parser_reset(p);
        return PARSE_HEAD;
    }
    if (p->status == 204 || p->status == 304)
        return PARSE_COMPLETE;
    if (p->chunked) {
        p->remaining = 0;
        p->size_digits = false;
        return PARSE_CHUNK_SIZE;
    }
    if (p->has_length)
        return p->remaining > 0 ? PARSE_LENGTH : PARSE_COMPLETE;
    p->close = true;
    return PARSE_UNTIL_CLOSE;
}

static enum parse_state head_line(struct parser *p)
{
    const char *line = p->head_line;
    const char *value;
    if (p->first_line)
        return status_line(p, line);
    if (p->head_total == 0)
        return head_end(p);
    if (header_is(line, "content-length", &value)) {
        char *rest;
        p->remaining = strtoull(value, &rest, 10);
        p->has_length = true;
        if (rest == value)
            return PARSE_ERROR;
    } else if (header_is(line, "transfer-encoding", &value)) {
        p->chunked = strcasestr(value, "chunked") != NULL;
    } else if (header_is(line, "content-type", &value)) {
        p->event_stream = strncasecmp(value, "text/event-stream", 17) == 0;
    } else if (header_is(line, "connection", &value)) {
        p->close = strncasecmp(value, "close", 5) == 0;
    }
    return PARSE_HEAD;
}

/* One byte of a head or trailer line; true when the line is whole. Only its first
 * HEAD_LINE_MAX - 1 bytes are kept: no header we read is longer. */
static bool line_byte(struct parser *p, char c)
{
    if (c != '\n') {
        if (p->head_len < HEAD_LINE_MAX - 1)
            p->head_line[p->head_len++] = c;
        p->head_total++;
        return false;
    }
    if (p->head_len == p->head_total && p->head_len > 0 && p->head_line[p->head_len - 1] == '\r') {
        p->head_len--;
        p->head_total--;
    }
    p->head_line[p->head_len] = '\0';
    return true;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static enum parse_state chunk_size_byte(struct parser *p, char c)
{
    int digit = hex_digit(c);
    if (p->state == PARSE_CHUNK_SIZE && digit >= 0) {
        if (p->remaining >> 60)
            return PARSE_ERROR;
        p->remaining = p->remaining * 16 + (uint64_t)digit;
        p->size_digits = true;
        return PARSE_CHUNK_SIZE;
    }
    if (c == '\n') {
        if (!p->size_digits)
            return PARSE_ERROR;
        p->head_len = p->head_total = 0;
        return p->remaining > 0 ? PARSE_CHUNK_DATA : PARSE_TRAILER;
    }
    if (p->state == PARSE_CHUNK_EXT)
        return PARSE_CHUNK_EXT;
    return p->size_digits && (c == '\r' || c == ';' || c == ' ') ? PARSE_CHUNK_EXT : PARSE_ERROR;
}

static enum parse_state chunk_end_byte(struct parser *p, char c)
{
    if (c == '\r')
        return PARSE_CHUNK_END;
    if (c != '\n')
        return PARSE_ERROR;
    p->remaining = 0;
    p->size_digits = false;
    return PARSE_CHUNK_SIZE;
}

enum parse_state parser_feed(struct parser *p, const char *data, size_t len)
{
    size_t i = 0;
    while (i < len && p->state != PARSE_ERROR) {
        size_t take = len - i;
        switch (p->state) {
        case PARSE_HEAD:
            if (line_byte(p, data[i++])) {
                p->state = head_line(p);
                p->head_len = p->head_total = 0;
            }
            break;
        case PARSE_CHUNK_SIZE:
        case PARSE_CHUNK_EXT:
            p->state = chunk_size_byte(p, data[i++]);
            break;
        case PARSE_CHUNK_DATA:
        case PARSE_LENGTH:
            if (take > p->remaining)
                take = p->remaining;
            p->remaining -= take;
            if (!body(p, data + i, take))
                p->state = PARSE_ERROR;
            else if (p->remaining == 0)
                p->state = p->state == PARSE_LENGTH ? PARSE_COMPLETE : PARSE_CHUNK_END;
            i += take;
            break;
        case PARSE_CHUNK_END:
            p->state = chunk_end_byte(p, data[i++]);
            break;
        case PARSE_TRAILER:
            if (line_byte(p, data[i++])) {
                if (p->head_total == 0)
                    p->state = PARSE_COMPLETE;
                p->head_len = p->head_total = 0;
            }
            break;
        case PARSE_UNTIL_CLOSE:
            if (!body(p, data + i, take))
                p->state = PARSE_ERROR;
            i += take;
            break;
        case PARSE_COMPLETE:
        case PARSE_ERROR:
            p->state = PARSE_ERROR;
            break;
        }
    }
    return p->state;
}

enum parse_state parser_eof(struct parser *p)
{
    if (p->state == PARSE_UNTIL_CLOSE)
        p->state = PARSE_COMPLETE;
    else if (p->state != PARSE_COMPLETE)
        p->state = PARSE_ERROR;
    return p->state;
}
