/* The driver API in a program that is not Python: each call is a message to the device process (kcheck/driver/engine.py).

Device memory is shared: it has the same address in both processes. What an argument points to in the program is copied
into the thread's scratch area, which is shared, too. A word of `calls` says how for each argument:

  v     a value            4, 8   4 or 8 bytes are written            s     a string is read
  <N;   N bytes are read   >N;    N bytes are written                 n     a text is written; the next argument is its size
*/
#include "runtime.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static const struct call { const char *name, *arguments; int flushes; } calls[] = {
#define FLUSHES 1
    {"cuInit", "v", 0}, {"cuDriverGetVersion", "4", 0}, {"cuDeviceGetCount", "4", 0}, {"cuDeviceGet", "4v", 0},
    {"cuDeviceGetName", "nvv", 0}, {"cuDeviceGetUuid", ">16;v", 0}, {"cuDeviceGetUuid_v2", ">16;v", 0},
    {"cuDeviceTotalMem", "8v", 0}, {"cuDeviceGetAttribute", "4vv", 0}, {"cuDeviceGetPCIBusId", "nvv", 0},
    {"cuDeviceGetByPCIBusId", "4s", 0}, {"cuDeviceCanAccessPeer", "4vv", 0},
    {"cuDevicePrimaryCtxRetain", "8v", 0}, {"cuDevicePrimaryCtxRelease", "v", FLUSHES}, {"cuDevicePrimaryCtxReset", "v", FLUSHES},
    {"cuDevicePrimaryCtxGetState", "v44", 0}, {"cuCtxGetCurrent", "8", 0}, {"cuCtxSetCurrent", "v", 0},
    {"cuCtxCreate", "8vv", 0}, {"cuCtxDestroy", "v", FLUSHES},
    {"cuCtxPushCurrent", "v", 0}, {"cuCtxPopCurrent", "8", 0}, {"cuCtxGetDevice", "4", 0}, {"cuCtxSynchronize", "", FLUSHES},
    {"cuCtxGetApiVersion", "v4", 0}, {"cuCtxGetFlags", "4", 0}, {"cuCtxGetStreamPriorityRange", "44", 0},
    {"cuCtxGetLimit", "8v", 0}, {"cuCtxSetLimit", "vv", 0},
    {"cuMemAlloc", "8v", 0}, {"cuMemAllocManaged", "8vv", 0}, {"cuMemHostAlloc", "8vv", 0}, {"cuMemAllocHost", "8v", 0},
    {"cuMemAllocPitch", "88vvv", 0}, {"cuMemFree", "v", 0}, {"cuMemFreeHost", "v", 0}, {"cuMemHostGetDevicePointer", "8vv", 0},
    {"cuMemHostGetFlags", "4v", 0}, {"cuMemGetInfo", "88", 0}, {"cuMemGetAddressRange", "88v", 0},
    {"cuMemAllocAsync", "8vv", 0}, {"cuMemFreeAsync", "vv", 0}, {"cuMemAllocFromPoolAsync", "8vvv", 0},
    {"cuDeviceGetDefaultMemPool", "8v", 0}, {"cuDeviceGetMemPool", "8v", 0}, {"cuDeviceSetMemPool", "vv", 0},
    {"cuMemPoolCreate", "8v", 0}, {"cuMemPoolDestroy", "v", 0}, {"cuMemPoolSetAttribute", "vv<8;", 0},
    {"cuMemPoolGetAttribute", "vv8", 0}, {"cuMemPoolTrimTo", "vv", 0}, {"cuMemPoolSetAccess", "vvv", 0},
    {"cuMemcpyDtoD", "vvv", FLUSHES}, {"cuMemcpyDtoDAsync", "vvvv", 0}, {"cuMemcpyAsync", "vvvv", 0},
    {"kcheckWrite", "vv", FLUSHES}, {"kcheckRead", "vv", FLUSHES}, {"kcheckStage", "8v", 0}, {"kcheckUnstage", "v", 0},
    {"kcheckRegister", "8vv", 0}, {"kcheckUnregister", "v", 0}, {"kcheckParams", "v>32768;v", 0}, {"kcheckFlush", "", FLUSHES},
    {"cuMemsetD8", "vvv", 0}, {"cuMemsetD8Async", "vvvv", 0}, {"cuMemsetD16", "vvv", 0}, {"cuMemsetD16Async", "vvvv", 0},
    {"cuMemsetD32", "vvv", 0}, {"cuMemsetD32Async", "vvvv", 0},
    {"cuMemcpy3D", "<200;", FLUSHES}, {"cuMemcpy3DAsync", "<200;v", FLUSHES},
    {"cuArrayCreate", "8<24;", 0}, {"cuArray3DCreate", "8<40;", 0}, {"cuArrayDestroy", "v", 0},
    {"cuArray3DGetDescriptor", ">40;v", 0}, {"cuTexObjectCreate", "8<144;<104;v", 0}, {"cuTexObjectDestroy", "v", 0},
    {"cuSurfObjectCreate", "8<144;", 0}, {"cuSurfObjectDestroy", "v", 0},
    {"cuStreamCreate", "8v", 0}, {"cuStreamCreateWithPriority", "8vv", 0}, {"cuStreamDestroy", "v", 0},
    {"cuStreamSynchronize", "v", FLUSHES}, {"cuStreamQuery", "v", FLUSHES}, {"cuStreamWaitEvent", "vvv", 0},
    {"cuStreamGetFlags", "v4", 0}, {"cuStreamGetPriority", "v4", 0}, {"cuStreamGetId", "v8", 0}, {"cuStreamGetDevice", "v4", 0},
    {"cuStreamIsCapturing", "v4", 0}, {"cuEventCreate", "8v", 0}, {"cuEventDestroy", "v", 0}, {"cuEventRecord", "vv", 0},
    {"cuEventQuery", "v", 0}, {"cuEventSynchronize", "v", FLUSHES}, {"cuEventElapsedTime", "4vv", 0},
    {"cuLibraryUnload", "v", 0}, {"cuModuleUnload", "v", 0}, {"cuLibraryGetKernel", "8vs", 0}, {"cuModuleGetFunction", "8vs", 0},
    {"cuLibraryGetGlobal", "88vs", 0}, {"cuModuleGetGlobal", "88vs", 0}, {"cuFuncGetAttribute", "4vv", 0},
    {"cuKernelGetFunction", "8v", 0}, {"cuFuncSetAttribute", "vvv", 0}, {"cuFuncSetCacheConfig", "vv", 0},
    {"cuFuncGetParamInfo", "vv88", 0}, {"kcheckName", "v>4096;", 0}, {"kcheckLoad", "8vvv", 0},
    {"cuOccupancyMaxActiveBlocksPerMultiprocessor", "4vvv", 0}, {"cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", "4vvvv", 0},
    {"cuOccupancyMaxPotentialBlockSize", "44vvvv", 0},
    {"cuPointerGetAttribute", "8vv", 0}, {"cuLaunchKernel", "vvvvvvvvvvv", 0}, {"kcheckLaunchCooperative", "vvvvvvvvvv", 0},
    {"cuProfilerStart", "", 0}, {"cuProfilerStop", "", 0},
};
#define CALLS (sizeof calls / sizeof *calls)

struct request { char name[56]; u64 arguments[ARGUMENTS]; u32 flushes, pad; };
struct reply { int result; u32 text; };
struct hello { u64 address, size, scratch, scratch_size; };

static struct hello device;
static int control = -1, is_forked;
static pid_t owner;
static __thread int channel = -1;
static __thread char *scratch;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t key;

static void lost(void) __attribute__((noreturn));
static void lost(void) {
    static const char text[] = "kcheck: internal error: the device process ended; this is an error of kcheck, not of the program\n";
    if (write(2, text, sizeof text - 1) < 0) {}
    _exit(3);
}
static int receive(int from, void *to, size_t size) {
    for (char *at = to; size;) {
        ssize_t got = recv(from, at, size, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return -1;
        at += got, size -= (size_t)got;
    }
    return 0;
}
static int open_socket(const char *suffix) {
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    const char *folder = getenv("KCHECK_DEVICE");
    if (!folder || snprintf(to.sun_path, sizeof to.sun_path, "%s%s", folder, suffix) >= (int)sizeof to.sun_path) return -1;
    int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (made >= 0 && connect(made, (struct sockaddr *)&to, sizeof to)) close(made), made = -1;
    return made;
}
static int receive_memory(void) {
    char space[CMSG_SPACE(sizeof(int))];
    struct iovec part = {&device, sizeof device};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    ssize_t got;
    do got = recvmsg(control, &message, MSG_CMSG_CLOEXEC); while (got < 0 && errno == EINTR);
    struct cmsghdr *head = got == sizeof device ? CMSG_FIRSTHDR(&message) : NULL;
    int file;
    if (!head) return -1;
    memcpy(&file, CMSG_DATA(head), sizeof file);
    void *at = mmap((void *)device.address, device.size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE | MAP_NORESERVE, file, 0);
    if (at != (void *)device.address) {
        fprintf(stderr, "kcheck: the program cannot map the %llu bytes of device memory at %#llx (%s); raise ulimit -v, or set "
                        "KCHECK_DEVICE_MEMORY\n", (unsigned long long)device.size, (unsigned long long)device.address, strerror(errno));
        return -1;
    }
    return file;
}
static int memory_file = -1;

/* A forked child has no device, as with a GPU; the connections are those of its parent. */
static void in_child(void) {
    if (!owner) return;
    is_forked = 1;
    close(control);
    if (channel >= 0) close(channel);
}
static void close_channel(void *value) { close((int)(intptr_t)value - 1); }

static void at_exit(void);
static int connect_process(void) {
    pid_t self = getpid();
    control = open_socket("/device");
    if (control < 0) return -1;
    u64 pid = (u64)self;
    if (send(control, &pid, sizeof pid, MSG_NOSIGNAL) != sizeof pid || (memory_file = receive_memory()) < 0) return -1;
    owner = self;
    pthread_key_create(&key, close_channel);
    pthread_atfork(NULL, NULL, in_child);
    atexit(at_exit);
    return 0;
}
static int connect_thread(void) {
    pthread_mutex_lock(&lock);
    if (!owner && connect_process()) {
        fprintf(stderr, "kcheck: the device process did not start; run the program with kcheck exec\n");
        _exit(3);
    }
    pthread_mutex_unlock(&lock);
    char name[32];
    snprintf(name, sizeof name, "/engine-%d", (int)owner);
    channel = open_socket(name);
    u64 slot;
    if (channel < 0 || receive(channel, &slot, sizeof slot)) lost();
    scratch = (char *)(device.scratch + slot * device.scratch_size);
    pthread_setspecific(key, (void *)(intptr_t)(channel + 1));
    return 0;
}

static int send_call(const char *name, const u64 *arguments, u32 flushes) {
    struct request request = {.flushes = flushes};
    struct reply reply;
    strncpy(request.name, name, sizeof request.name - 1);
    memcpy(request.arguments, arguments, sizeof request.arguments);
    ssize_t sent;
    do sent = send(channel, &request, sizeof request, MSG_NOSIGNAL); while (sent < 0 && errno == EINTR);
    if (sent != sizeof request || receive(channel, &reply, sizeof reply)) lost();
    if (reply.text) { /* what kernels printed */
        char *text = malloc(reply.text);
        if (receive(channel, text, reply.text)) lost();
        fwrite(text, 1, reply.text, stdout);
        free(text);
    }
    return reply.result;
}

static int remote(const struct call *call, const u64 *given) {
    u64 sent[ARGUMENTS] = {0};
    struct { void *to; size_t size, offset; int is_text; } written[ARGUMENTS];
    size_t used = 0, outs = 0;
    int n = 0;
    if (is_forked) return NOT_INITIALIZED;
    if (channel < 0) connect_thread();
    for (const char *c = call->arguments; *c; c++, n++) {
        u64 value = given[n];
        char kind = *c;
        size_t size = kind == '4' ? 4 : kind == '8' ? 8 : kind == 'n' ? (u32)given[n + 1] : 0;
        if (kind == '<' || kind == '>') {
            char *end;
            size = strtoul(c + 1, &end, 10), c = end;
        }
        if (kind == 'v' || !value) {
            sent[n] = value;
            continue;
        }
        if (kind == 's') size = strlen((char *)value) + 1;
        int is_read = kind == '<' || kind == 's', is_text = kind == 'n';
        if (used + size > device.scratch_size) return INVALID_VALUE;
        sent[n] = A(scratch + used);
        if (is_read) memcpy(scratch + used, (void *)value, size);
        else {
            memcpy(scratch + used, (void *)value, is_text || size > 64 ? 0 : size);
            written[outs].to = (void *)value, written[outs].size = size, written[outs].is_text = is_text, written[outs++].offset = used;
        }
        used += (size + 15) / 16 * 16;
    }
    int result = send_call(call->name, sent, (u32)call->flushes);
    for (size_t k = 0; k < outs && !result; k++) {
        char *from = scratch + written[k].offset;
        memcpy(written[k].to, from, written[k].is_text ? strnlen(from, written[k].size - 1) + 1 : written[k].size);
    }
    return result;
}
static const struct call *call_of(const char *name) {
    for (size_t n = 0; n < CALLS; n++)
        if (!strcmp(calls[n].name, name)) return &calls[n];
    return NULL;
}
#define REMOTE(name, ...)                                       \
    __extension__({                                             \
        static const struct call *found_;                       \
        if (!found_) found_ = call_of(name);                    \
        remote(found_, (const u64[ARGUMENTS]){__VA_ARGS__});    \
    })

static int is_shared(u64 address) { return address - device.address < device.size; }

/* --- host functions run on a thread of the program, in order; later work waits for them */

struct host_work { void (*function)(void *); void (*callback)(u64, int, void *); u64 stream; void *data; struct host_work *next; };
static struct host_work *first_work, **last_work = &first_work;
static int pending;
static __thread int is_host_thread;
static pthread_mutex_t work_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work_changed = PTHREAD_COND_INITIALIZER;

static void *run_host_work(void *unused) {
    (void)unused;
    is_host_thread = 1;
    pthread_mutex_lock(&work_lock);
    for (;;) {
        while (!first_work) pthread_cond_wait(&work_changed, &work_lock);
        struct host_work *work = first_work;
        if (!(first_work = work->next)) last_work = &first_work;
        pthread_mutex_unlock(&work_lock);
        if (work->function) work->function(work->data);
        else work->callback(work->stream, 0, work->data);
        free(work);
        pthread_mutex_lock(&work_lock);
        pending--;
        pthread_cond_broadcast(&work_changed);
    }
    return NULL;
}
static int add_host_work(struct host_work work) {
    static int is_started;
    pthread_mutex_lock(&work_lock);
    pthread_t thread;
    if (!is_started && !pthread_create(&thread, NULL, run_host_work, NULL)) is_started = 1, pthread_detach(thread);
    struct host_work *copy = malloc(sizeof work);
    *copy = work, copy->next = NULL;
    *last_work = copy, last_work = &copy->next;
    pending++;
    pthread_cond_broadcast(&work_changed);
    pthread_mutex_unlock(&work_lock);
    return 0;
}
static void wait_for_host_work(void) {
    if (!__atomic_load_n(&pending, __ATOMIC_ACQUIRE) || is_host_thread) return;
    pthread_mutex_lock(&work_lock);
    while (pending) pthread_cond_wait(&work_changed, &work_lock);
    pthread_mutex_unlock(&work_lock);
}
static int launch_host(u64 stream, u64 function, u64 data) {
    (void)stream;
    return add_host_work((struct host_work){.function = (void (*)(void *))function, .data = (void *)data});
}
static int add_callback(u64 stream, u64 function, u64 data, u64 flags) {
    (void)flags;
    return add_host_work((struct host_work){.callback = (void (*)(u64, int, void *))function, .stream = stream, .data = (void *)data});
}
static void at_exit(void) {
    if (is_forked || owner != getpid()) return;
    wait_for_host_work();
    REMOTE("kcheckFlush", 0);
    fflush(stdout);
}

/* --- copies: between host memory and device memory, the program copies; the device process checks the range */

static int write_device(u64 to, u64 from, u64 size) {
    wait_for_host_work();
    int error = size ? REMOTE("kcheckWrite", to, size) : 0;
    if (!error && size) memcpy((void *)to, (void *)from, size);
    return error;
}
static int read_device(u64 to, u64 from, u64 size) {
    wait_for_host_work();
    int error = size ? REMOTE("kcheckRead", from, size) : 0;
    if (!error && size) memmove((void *)to, (void *)from, size);
    return error;
}
static int copy_any(u64 to, u64 from, u64 size) {
    wait_for_host_work();
    if (channel < 0) REMOTE("kcheckFlush", 0);
    if (is_shared(to) && is_shared(from)) return REMOTE("cuMemcpyAsync", to, from, size, 0);
    if (is_shared(to)) return write_device(to, from, size);
    if (is_shared(from)) return read_device(to, from, size);
    memmove((void *)to, (void *)from, size);
    return 0;
}
static int write_async(u64 to, u64 from, u64 size, u64 stream) { (void)stream; return write_device(to, from, size); }
static int read_async(u64 to, u64 from, u64 size, u64 stream) { (void)stream; return read_device(to, from, size); }
static int copy_async(u64 to, u64 from, u64 size, u64 stream) { (void)stream; return copy_any(to, from, size); }

/* The host's side of a copy of a box goes through memory that is shared for the time of the copy. */
enum { X, Y, Z, LEVEL, MEMORY, HOST, DEVICE_AT, ARRAY, RESERVED, PITCH, HEIGHT, SIDE = 11 };
static int copy_box(u64 given, u64 stream) {
    u64 box[25], staged[2] = {0}, saved[2][11];
    memcpy(box, (void *)given, sizeof box);
    u64 width = box[22], rows = box[23], slices = box[24], size = width * rows * slices;
    wait_for_host_work();
    if (channel < 0) REMOTE("kcheckFlush", 0);
    int error = 0;
    for (int side = 0; side < 2 && !error; side++) {
        u64 *s = box + side * SIDE;
        u32 kind = (u32)s[MEMORY];
        if (kind == 4) s[MEMORY] = kind = is_shared(s[DEVICE_AT]) ? 2 : 1, s[kind == 1 ? HOST : DEVICE_AT] = s[DEVICE_AT];
        memcpy(saved[side], s, sizeof saved[side]);
        if (kind != 1 || is_shared(s[HOST])) continue;
        error = REMOTE("kcheckStage", A(&staged[side]), size);
        if (error) break;
        s[HOST] = staged[side], s[X] = s[Y] = s[Z] = 0, s[PITCH] = width, s[HEIGHT] = rows;
    }
    for (int side = 0; side < 2 && !error; side++) {
        if (side) error = REMOTE("cuMemcpy3DAsync", A(box), stream);
        if (error || !staged[side]) continue;
        const u64 *s = saved[side];
        u64 height = s[HEIGHT] ? s[HEIGHT] : rows, pitch = s[PITCH] ? s[PITCH] : width;
        for (u64 z = 0; z < slices; z++)
            for (u64 y = 0; y < rows; y++) {
                char *host = (char *)s[HOST] + ((s[Z] + z) * height + s[Y] + y) * pitch + s[X];
                char *shared = (char *)staged[side] + (z * rows + y) * width;
                if (side) memcpy(host, shared, width); else memcpy(shared, host, width);
            }
    }
    for (int side = 0; side < 2; side++)
        if (staged[side]) REMOTE("kcheckUnstage", staged[side]);
    return error;
}
static int copy_box_now(u64 given) { return copy_box(given, 0); }
static int copy_2d(u64 given, u64 stream) { /* CUDA_MEMCPY2D */
    const u64 *g = (const u64 *)given;
    u64 box[25] = {g[0], g[1], 0, 0, g[2], g[3], g[4], g[5], 0, g[6], g[15], g[7], g[8], 0, 0, g[9], g[10], g[11], g[12], 0, g[13], g[15], g[14], g[15], 1};
    return copy_box(A(box), stream);
}
static int copy_2d_now(u64 given) { return copy_2d(given, 0); }

/* Registered memory: its pages are replaced by pages of device memory, at the same address. */
static int host_register(u64 address, u64 size, u64 flags) {
    (void)flags;
    u64 page = (u64)sysconf(_SC_PAGESIZE), low = address & ~(page - 1), high = (address + size + page - 1) & ~(page - 1), place;
    if (!address || !size) return INVALID_VALUE;
    if (channel < 0) REMOTE("kcheckFlush", 0);
    if (is_shared(address)) return 712; /* cudaErrorHostMemoryAlreadyRegistered */
    int error = REMOTE("kcheckRegister", A(&place), address, size);
    if (error) return error;
    memcpy((void *)place, (void *)low, high - low);
    void *at = mmap((void *)low, high - low, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory_file, (off_t)(place - device.address));
    return at == (void *)low ? 0 : OUT_OF_MEMORY;
}
static int host_unregister(u64 address) { return REMOTE("kcheckUnregister", address); } /* the pages stay: they hold the data */

/* --- code and launches */

static int load_images(handle *out, const u64 *images, u64 count) {
    u64 place[256], staged;
    size_t total = 0, at = count * 8;
    if (count > 256) return INVALID_VALUE;
    for (u64 n = 0; n < count; n++) {
        const unsigned char *image = (const unsigned char *)images[n];
        u32 magic;
        u64 size;
        memcpy(&magic, image, 4);
        if (magic == 0x466243B1) memcpy(&image, image + 8, 8), memcpy(&magic, image, 4);
        if (magic == 0xBA55ED50) memcpy(&size, image + 8, 8), size += 16;
        else size = magic == 0x464c457f ? 64 : strlen((const char *)image) + 1;
        place[n] = size, total += (size + 31) / 16 * 16;
    }
    int error = REMOTE("kcheckStage", A(&staged), total + at + 64);
    if (error) return error;
    char *to = (char *)staged + (at + 15) / 16 * 16;
    for (u64 n = 0; n < count; n++) {
        const unsigned char *image = (const unsigned char *)images[n];
        u32 magic;
        memcpy(&magic, image, 4);
        if (magic == 0x466243B1) memcpy(&image, image + 8, 8);
        memcpy(to, image, place[n]);
        ((u64 *)staged)[n] = A(to);
        to += (place[n] + 31) / 16 * 16;
    }
    error = REMOTE("kcheckLoad", A(out), staged, count);
    REMOTE("kcheckUnstage", staged);
    return error;
}
static int library_load(u64 out, u64 images, u64 count) { return load_images((handle *)out, (const u64 *)images, count); }
static int module_load(u64 out, u64 image) { return load_images((handle *)out, &image, 1); }
static int module_load_file(u64 out, u64 path) {
    FILE *file = fopen((const char *)path, "rb");
    if (!file) return 301; /* CUDA_ERROR_FILE_NOT_FOUND */
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    char *content = calloc(1, (size_t)size + 1);
    rewind(file);
    size_t got = fread(content, 1, (size_t)size, file);
    fclose(file);
    int error = got == (size_t)size ? module_load(out, A(content)) : 301;
    free(content);
    return error;
}

struct layout { u64 kernel, count; u32 *slots; }; /* offset and size of each parameter */
static struct layout *layouts[1024];
static const struct layout *layout_of(u64 kernel, int *error) {
    u64 n = kernel / 16;
    for (int k = 0; k < 1024; k++, n++) {
        struct layout *known = __atomic_load_n(&layouts[n % 1024], __ATOMIC_ACQUIRE);
        if (known && known->kernel == kernel) return known;
        if (known && k < 1023) continue;
        u32 *slots = malloc(32768);
        struct layout *made = malloc(sizeof *made);
        *error = REMOTE("kcheckParams", kernel, A(slots), 4096);
        if (*error) { free(slots), free(made); return NULL; }
        *made = (struct layout){kernel, slots[0], slots + 1};
        __atomic_store_n(&layouts[n % 1024], made, __ATOMIC_RELEASE);
        return made;
    }
    return NULL;
}
static int launch_any(const u64 *a, u64 params, u64 extra, int is_cooperative) {
    int error = 0;
    if (is_forked) return NOT_INITIALIZED;
    wait_for_host_work();
    if (channel < 0) connect_thread();
    const struct layout *layout = layout_of(a[0], &error);
    if (!layout) return error;
    char *block = scratch + 4096;
    u64 size = 0;
    if (params)
        for (u64 n = 0; n < layout->count; n++) {
            u32 offset = layout->slots[2 * n], bytes = layout->slots[2 * n + 1];
            memcpy(block + offset, ((void **)params)[n], bytes);
            size = offset + bytes;
        }
    for (const u64 *e = (const u64 *)extra; !params && e && e[0]; e += 2) {
        if (e[0] == 2) size = *(u64 *)e[1];
    }
    for (const u64 *e = (const u64 *)extra; !params && e && e[0]; e += 2)
        if (e[0] == 1) memcpy(block, (void *)e[1], size < 65536 ? size : 65536);
    u64 *words = (u64 *)scratch;
    words[0] = 1, words[1] = A(block), words[2] = 2, words[3] = A(&words[5]), words[4] = 0, words[5] = size;
    u64 sent[ARGUMENTS] = {a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], 0, A(words)};
    if (is_cooperative) sent[9] = A(words);
    return send_call(is_cooperative ? "kcheckLaunchCooperative" : "cuLaunchKernel", sent, 0);
}
static int launch_kernel(u64 f, u64 gx, u64 gy, u64 gz, u64 bx, u64 by, u64 bz, u64 shared, u64 stream, u64 params, u64 extra) {
    return launch_any((const u64[]){f, gx, gy, gz, bx, by, bz, (u32)shared, stream}, params, extra, 0);
}
static int launch_cooperative(u64 f, u64 gx, u64 gy, u64 gz, u64 bx, u64 by, u64 bz, u64 shared, u64 stream, u64 params) {
    return launch_any((const u64[]){f, gx, gy, gz, bx, by, bz, (u32)shared, stream}, params, 0, 1);
}
static int function_name(u64 out, u64 kernel) {
    char name[4096];
    int error = REMOTE("kcheckName", kernel, A(name));
    if (!error) *(char **)out = strdup(name);
    return error;
}
static int pointer_attribute(u64 out, u64 number, u64 address) {
    static const u64 wide = 1 << 1 | 1 << 3 | 1 << 4 | 1 << 7 | 1 << 11 | 1 << 12;
    u64 value = 0;
    int error = REMOTE("cuPointerGetAttribute", A(&value), number, address);
    if (!error) memcpy((void *)out, &value, wide >> (u32)number & 1 ? 8 : 4);
    return error;
}
extern const char *cudaGetErrorString(int), *cudaGetErrorName(int);
static int error_string(u64 number, u64 out) { *(const char **)out = cudaGetErrorString((int)number); return 0; }
static int error_name(u64 number, u64 out) { *(const char **)out = cudaGetErrorName((int)number); return 0; }
static int no_export_table(u64 out) { *(void **)out = NULL; return 500; }

/* --- addresses of functions, by name */

static const struct { const char *name; void *function; } local[] = {
    {"cuMemcpyHtoD", write_device}, {"cuMemcpyHtoDAsync", write_async}, {"cuMemcpyDtoH", read_device}, {"cuMemcpyDtoHAsync", read_async},
    {"cuMemcpy", copy_any}, {"cuMemcpyAsync", copy_async}, {"cuMemcpy3D", copy_box_now}, {"cuMemcpy3DAsync", copy_box},
    {"cuMemcpy2D", copy_2d_now}, {"cuMemcpy2DUnaligned", copy_2d_now}, {"cuMemcpy2DAsync", copy_2d},
    {"cuMemHostRegister", host_register}, {"cuMemHostUnregister", host_unregister}, {"kcheckLibraryLoad", library_load},
    {"cuModuleLoadData", module_load}, {"cuModuleLoadDataEx", module_load}, {"cuModuleLoadFatBinary", module_load},
    {"cuLibraryLoadData", module_load}, {"cuModuleLoad", module_load_file}, {"cuLaunchKernel", launch_kernel},
    {"cuLaunchCooperativeKernel", launch_cooperative}, {"cuFuncGetName", function_name}, {"cuPointerGetAttribute", pointer_attribute},
    {"cuGetErrorString", error_string}, {"cuGetErrorName", error_name}, {"cuGetExportTable", no_export_table},
    {"cuLaunchHostFunc", launch_host}, {"cuStreamAddCallback", add_callback},
};

/* A function for the nth call of the table, or of the names that are not in it. */
#define EIGHT(F, n) F(n##0) F(n##1) F(n##2) F(n##3) F(n##4) F(n##5) F(n##6) F(n##7)
#define GENERIC(n)                                                                                               \
    static int generic##n(u64 a, u64 b, u64 c, u64 d, u64 e, u64 f, u64 g, u64 h, u64 i, u64 j, u64 k, u64 l) {  \
        if (strstr(calls[n].name, "Synchronize") || strstr(calls[n].name, "Event")) wait_for_host_work();        \
        return remote(&calls[n], (const u64[ARGUMENTS]){a, b, c, d, e, f, g, h, i, j, k, l});                    \
    }
#define ALL(F) EIGHT(F, 0) EIGHT(F, 01) EIGHT(F, 02) EIGHT(F, 03) EIGHT(F, 04) EIGHT(F, 05) EIGHT(F, 06) EIGHT(F, 07) \
    EIGHT(F, 010) EIGHT(F, 011) EIGHT(F, 012) EIGHT(F, 013) EIGHT(F, 014) EIGHT(F, 015) EIGHT(F, 016)
#pragma GCC diagnostic ignored "-Warray-bounds"
ALL(GENERIC)
#define ADDRESS(n) generic##n,
static const driver_function generic[] = {ALL(ADDRESS)};
_Static_assert(CALLS <= sizeof generic / sizeof *generic, "add a row to ALL");

static int unknown(u64 a, u64 b, u64 c, u64 d, u64 e, u64 f, u64 g, u64 h, u64 i, u64 j, u64 k, u64 l) {
    (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)h, (void)i, (void)j, (void)k, (void)l;
    fprintf(stderr, "kcheck: a function of the CUDA driver that the cpu device does not support was called\n");
    return NOT_SUPPORTED;
}
static driver_function function_of(const char *name) {
    for (size_t n = 0; n < sizeof local / sizeof *local; n++)
        if (!strcmp(local[n].name, name)) return (driver_function)local[n].function;
    for (size_t n = 0; n < CALLS; n++)
        if (!strcmp(calls[n].name, name)) return generic[n];
    return NULL;
}
static int look_up(const char *name, void **out, int version, u64 flags, int *status) {
    (void)version, (void)flags;
    *(driver_function *)out = kc_resolve(name);
    if (status) *status = 0;
    return 0;
}
/* In a Python process, the stub driver is loaded, and the engine is in the process. */
static driver_function in_process(const char *name) {
    static int (*stub)(const char *, driver_function *, int, u64, int *);
    driver_function found = NULL;
    void *driver = stub ? NULL : dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (driver && dlsym(driver, "kcheck_slots")) *(void **)&stub = dlsym(driver, "cuGetProcAddress_v2");
    if (stub) stub(name, &found, 12000, 0, NULL);
    return found;
}
driver_function kc_resolve(const char *name) {
    char plain[128];
    driver_function native = owner ? NULL : in_process(name);
    if (native) return native;
    if (!strncmp(name, "cuGetProcAddress", 16)) return (driver_function)(void *)look_up;
    driver_function found = function_of(name);
    for (int cut = 0; !found && cut < 2; cut++) { /* _v2 and _ptsz */
        snprintf(plain, sizeof plain, "%s", cut ? plain : name);
        char *end = strrchr(plain, '_');
        if (!end) break;
        *end = 0;
        found = function_of(plain);
    }
    return found ? found : unknown;
}
#define EXPORT(name)                                                                                             \
    API int name(u64 a, u64 b, u64 c, u64 d, u64 e, u64 f, u64 g, u64 h, u64 i, u64 j, u64 k, u64 l) {           \
        static driver_function found;                                                                            \
        if (!found) found = kc_resolve(#name);                                                                   \
        return found(a, b, c, d, e, f, g, h, i, j, k, l);                                                        \
    }
#include "driver.h"
