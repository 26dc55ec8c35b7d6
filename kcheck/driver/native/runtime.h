/* What the files of this CUDA runtime share. The runtime is written on the driver API; it needs no CUDA header. */
#ifndef KCHECK_RUNTIME_H
#define KCHECK_RUNTIME_H

#define _GNU_SOURCE
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t u64;
typedef uint32_t u32;
typedef u64 handle; /* of the driver, or a device address */
typedef struct { u32 x, y, z; } dim;

#ifndef KCHECK_VERSION
#define KCHECK_VERSION 13000
#endif
#define API __attribute__((visibility("default")))
/* The names of programs that are compiled with --default-stream per-thread. */
#define PER_THREAD(name, suffix) extern __typeof__(name) name##suffix __attribute__((alias(#name), visibility("default")));

enum {
    INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, INVALID_CONFIGURATION = 9, INVALID_SYMBOL = 13,
    INVALID_COPY_DIRECTION = 21, INVALID_DEVICE_FUNCTION = 98, NO_DEVICE = 100, INVALID_DEVICE = 101,
    NO_KERNEL_IMAGE = 209, INVALID_HANDLE = 400, NOT_READY = 600, PEER_NOT_ENABLED = 705, NOT_SUPPORTED = 801,
    CAPTURE_UNSUPPORTED = 900
};

/* Every function of the driver takes integers and addresses only, at most 12. */
#define ARGUMENTS 12
typedef int (*driver_function)(u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64);
driver_function kc_resolve(const char *name);
static inline int kc_call(driver_function f, const u64 *a) {
    return f(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11]);
}
#define A(x) ((u64)(x))
#define DRIVER(name, ...)                                                        \
    __extension__({                                                              \
        static driver_function found;                                            \
        if (!found) found = kc_resolve(#name);                                   \
        kc_call(found, (const u64[ARGUMENTS]){__VA_ARGS__});                     \
    })

int kc_ready(void);               /* initializes the device; the sticky error, if there is one */
int kc_keep_of(int error, const char *name); /* stores the last error of this thread, and returns it */
#define kc_keep(error) kc_keep_of(error, __func__)
int kc_refuse(const char *name);  /* one line on stderr; cudaErrorNotSupported */
/* The body of most functions: initialize, evaluate, store the error. */
#define RETURN(expression)                            \
    do {                                              \
        int ready_ = kc_ready();                      \
        return kc_keep(ready_ ? ready_ : (expression)); \
    } while (0)

/* Code: a function of the host that starts a kernel, a variable of the host that stands for one of the device. */
int kc_function(const void *function, handle *kernel);
int kc_symbol(const void *symbol, handle *address, size_t *size);
int kc_launch(handle kernel, dim grid, dim block, void **args, size_t shared, handle stream, int cooperative);
int kc_launch_ex(const void *config, handle kernel, void **args);
int kc_run_launch(handle kernel, dim grid, dim block, size_t shared, handle stream, int cooperative, void **args);

/* For findings about errors that the program does not read. Only the client has them. */
#ifdef KCHECK_CLIENT
void kc_failed(const char *name, int error, const char *kernel); /* NULL unless it is a launch */
const char *kc_error_name(int error);
void kc_read(int error); /* 0: any */
#else
#define kc_failed(name, error, kernel) ((void)(name), (void)(kernel))
#define kc_read(error) ((void)0)
#endif

API int cudaGetDeviceCount(int *out);

/* Work on a stream, either done now or recorded in a graph. */
enum work_kind { WORK_KERNEL, WORK_COPY, WORK_COPY_BOX, WORK_FILL, WORK_HOST, WORK_EVENT, WORK_EMPTY, WORK_GRAPH, WORK_ALLOCATE, WORK_FREE };
struct work {
    enum work_kind kind;
    handle target, source;      /* a kernel is the target; an event is the target; a host function and its data */
    size_t size, height, pitch; /* a fill has rows of width elements of size bytes */
    u32 value, width;
    dim grid, block;
    size_t shared;
    int cooperative, copy_kind;
    void **args;       /* of a kernel, in storage */
    void *storage;     /* owned by a recorded piece of work */
    u64 box[25];       /* a CUDA_MEMCPY3D */
    void *graph;
};
int kc_do(struct work *work, handle stream);          /* now, or recorded if the stream is being captured */
int kc_perform(const struct work *work, handle stream);
int kc_copy(handle to, handle from, size_t size, int kind, handle stream);
int kc_allocate_for_graph(void **out, size_t size); /* lives as long as the program: graphs may be launched again */
void kc_record(void *capture, struct work *work);
void *kc_captured(handle stream);
int kc_kernel_params(handle kernel, size_t *offsets, size_t *sizes, int most);
#endif
