/* What the files of the client share: the driver API in a program that is not Python. */
#ifndef KCHECK_CLIENT_H
#define KCHECK_CLIENT_H
#include "runtime.h"

/* A call that is sent to the device process. `arguments` says how (channel.c). */
struct call { const char *name, *arguments; int flushes; };
struct hello { u64 address, size, scratch, scratch_size; };

extern const struct call kc_calls[];
extern const size_t kc_call_count;
#define MOST_CALLS 120 /* client.c has that many functions for them */
const struct call *kc_call_of(const char *name);
int kc_remote(const struct call *call, const u64 *given);
#define REMOTE(name, ...)                                       \
    __extension__({                                             \
        static const struct call *found_;                       \
        if (!found_) found_ = kc_call_of(name);                 \
        kc_remote(found_, (const u64[ARGUMENTS]){__VA_ARGS__}); \
    })

/* The device of this process, once it is connected. */
extern struct hello kc_device;
extern int kc_memory_file; /* its memory */
extern pid_t kc_owner;     /* the process that connected; 0: none */
extern int kc_is_forked;   /* in a child of that process, which has no device */
char *kc_connected(void);  /* connects this thread; its scratch area */
int kc_send(const char *name, const u64 *arguments, u32 flushes);
static inline int is_shared(u64 address) { return address - kc_device.address < kc_device.size; }

void kc_wait_for_host_work(void);

/* Functions of the driver that are more than a message. */
struct named { const char *name; void *function; };
extern const struct named kc_host_calls[], kc_copy_calls[], kc_code_calls[]; /* each ends with NULL */
#endif
