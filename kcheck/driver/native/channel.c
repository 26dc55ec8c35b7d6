/* The driver API in a program that is not Python: each call is a message to the device process (kcheck/driver/engine.py).

Device memory is shared: it has the same address in both processes. What an argument points to in the program is copied
into the thread's scratch area, which is shared, too. A word of `calls` says how for each argument:

  v     a value            4, 8   4 or 8 bytes are written            s     a string is read
  <N;   N bytes are read   >N;    N bytes are written                 n     a text is written; the next argument is its size
*/
#include "client.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

const struct call kc_calls[] = {
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
    {"cuMemAlloc", "8v", TRACES}, {"cuMemAllocManaged", "8vv", TRACES}, {"cuMemHostAlloc", "8vv", TRACES}, {"cuMemAllocHost", "8v", TRACES},
    {"cuMemAllocPitch", "88vvv", TRACES}, {"cuMemFree", "v", TRACES}, {"cuMemFreeHost", "v", TRACES}, {"cuMemHostGetDevicePointer", "8vv", 0},
    {"cuMemHostGetFlags", "4v", 0}, {"cuMemGetInfo", "88", 0}, {"cuMemGetAddressRange", "88v", 0},
    {"cuMemAllocAsync", "8vv", TRACES}, {"cuMemFreeAsync", "vv", TRACES}, {"cuMemAllocFromPoolAsync", "8vvv", TRACES},
    {"cuDeviceGetDefaultMemPool", "8v", 0}, {"cuDeviceGetMemPool", "8v", 0}, {"cuDeviceSetMemPool", "vv", 0},
    {"cuMemPoolCreate", "8v", 0}, {"cuMemPoolDestroy", "v", 0}, {"cuMemPoolSetAttribute", "vv<8;", 0},
    {"cuMemPoolGetAttribute", "vv8", 0}, {"cuMemPoolTrimTo", "vv", 0}, {"cuMemPoolSetAccess", "vvv", 0},
    {"cuMemcpyDtoD", "vvv", FLUSHES | TRACES}, {"cuMemcpyDtoDAsync", "vvvv", TRACES}, {"cuMemcpyAsync", "vvvv", TRACES},
    {"kcheckWrite", "vv", FLUSHES | TRACES}, {"kcheckRead", "vv", FLUSHES | TRACES}, {"kcheckStage", "8v", 0}, {"kcheckUnstage", "v", 0},
    {"kcheckRegister", "8vv", 0}, {"kcheckUnregister", "v", 0}, {"kcheckParams", "v>32768;v", 0}, {"kcheckFlush", "", FLUSHES}, {"kcheckEnded", "", FLUSHES},
    {"kcheckFailed", "svss", TRACES}, {"kcheckErrorRead", "v", 0}, {"kcheckKept", "v", 0},
    {"cuMemsetD8", "vvv", TRACES}, {"cuMemsetD8Async", "vvvv", TRACES}, {"cuMemsetD16", "vvv", TRACES}, {"cuMemsetD16Async", "vvvv", TRACES},
    {"cuMemsetD32", "vvv", TRACES}, {"cuMemsetD32Async", "vvvv", TRACES},
    {"cuMemcpy3D", "<200;", FLUSHES | TRACES}, {"cuMemcpy3DAsync", "<200;v", FLUSHES | TRACES},
    {"cuArrayCreate", "8<24;", TRACES}, {"cuArray3DCreate", "8<40;", TRACES}, {"cuArrayDestroy", "v", TRACES},
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
const size_t kc_call_count = sizeof kc_calls / sizeof *kc_calls;
_Static_assert(sizeof kc_calls / sizeof *kc_calls <= MOST_CALLS, "raise MOST_CALLS");

struct request { char name[56]; u64 arguments[ARGUMENTS]; u32 flags, frames; };
struct reply { int result; u32 text; };

struct hello kc_device;
int kc_is_forked, kc_memory_file = -1;
pid_t kc_owner;
static int control = -1;
static __thread int channel = -1;
static __thread char *scratch;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t key;

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
/* The device process has ended. If it does so because kcheck exec has, it sends a byte first. */
static void lost(void) __attribute__((noreturn));
static void lost(void) {
    static const char error[] = "kcheck: internal error: the device process ended; this is an error of kcheck, not of the program\n",
                      ended[] = "kcheck: kcheck exec has ended, and the device with it; the program cannot go on\n";
    char byte;
    int is_error = recv(control, &byte, 1, MSG_DONTWAIT) != 1;
    if (write(2, is_error ? error : ended, is_error ? sizeof error - 1 : sizeof ended - 1) < 0) {}
    _exit(3);
}
static int receive_memory(void) {
    char space[CMSG_SPACE(sizeof(int))];
    struct iovec part = {&kc_device, sizeof kc_device};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    ssize_t got;
    do got = recvmsg(control, &message, MSG_CMSG_CLOEXEC); while (got < 0 && errno == EINTR);
    struct cmsghdr *head = got == sizeof kc_device ? CMSG_FIRSTHDR(&message) : NULL;
    int file;
    if (!head) return -1;
    memcpy(&file, CMSG_DATA(head), sizeof file);
    void *at = mmap((void *)kc_device.address, kc_device.size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE | MAP_NORESERVE, file, 0);
    if (at != (void *)kc_device.address) {
        fprintf(stderr, "kcheck: the program cannot map the %llu bytes of device memory at %#llx (%s); raise ulimit -v, or set "
                        "KCHECK_DEVICE_MEMORY\n", (unsigned long long)kc_device.size, (unsigned long long)kc_device.address, strerror(errno));
        return -1;
    }
    return file;
}
/* A forked child has no device, as with a GPU; the connections are those of its parent. */
static void in_child(void) {
    if (!kc_owner) return;
    kc_is_forked = 1;
    close(control);
    if (channel >= 0) close(channel);
}
static void close_channel(void *value) { close((int)(intptr_t)value - 1); }

static void at_exit(void) {
    if (kc_is_forked || kc_owner != getpid()) return;
    kc_wait_for_host_work();
    REMOTE("kcheckEnded", 0);
    fflush(stdout);
}
static int connect_process(void) {
    pid_t self = getpid();
    control = open_socket("/device");
    if (control < 0) return -1;
    u64 pid = (u64)self;
    if (send(control, &pid, sizeof pid, MSG_NOSIGNAL) != sizeof pid || (kc_memory_file = receive_memory()) < 0) return -1;
    kc_owner = self;
    pthread_key_create(&key, close_channel);
    pthread_atfork(NULL, NULL, in_child);
    atexit(at_exit);
    return 0;
}
char *kc_connected(void) {
    if (channel >= 0) return scratch;
    pthread_mutex_lock(&lock);
    if (!kc_owner && connect_process()) {
        fprintf(stderr, "kcheck: the device process did not start; run the program with kcheck exec\n");
        _exit(3);
    }
    pthread_mutex_unlock(&lock);
    char name[32];
    snprintf(name, sizeof name, "/engine-%d", (int)kc_owner);
    channel = open_socket(name);
    u64 slot;
    if (channel < 0 || receive(channel, &slot, sizeof slot)) lost();
    scratch = (char *)(kc_device.scratch + slot * kc_device.scratch_size);
    pthread_setspecific(key, (void *)(intptr_t)(channel + 1));
    return scratch;
}

/* The last words of the scratch area are the call stack. */
#define FRAMES 32
static size_t room(void) { return kc_device.scratch_size - FRAMES * sizeof(void *); }

int kc_send(const char *name, const u64 *arguments, u32 flags) {
    struct request request = {.flags = flags & FLUSHES};
    struct reply reply;
    strncpy(request.name, name, sizeof request.name - 1);
    memcpy(request.arguments, arguments, sizeof request.arguments);
    if (flags & TRACES) request.frames = (u32)backtrace((void **)(scratch + room()), FRAMES);
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

int kc_remote(const struct call *call, const u64 *given) {
    u64 sent[ARGUMENTS] = {0};
    struct { void *to; size_t size, offset; int is_text; } written[ARGUMENTS];
    size_t used = 0, outs = 0;
    int n = 0;
    if (kc_is_forked) return NOT_INITIALIZED;
    kc_connected();
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
        if (used + size > room()) return INVALID_VALUE;
        sent[n] = A(scratch + used);
        if (is_read) memcpy(scratch + used, (void *)value, size);
        else {
            memcpy(scratch + used, (void *)value, is_text || size > 64 ? 0 : size);
            written[outs].to = (void *)value, written[outs].size = size, written[outs].is_text = is_text, written[outs++].offset = used;
        }
        used += (size + 15) / 16 * 16;
    }
    int result = kc_send(call->name, sent, call->flags);
    for (size_t k = 0; k < outs && !result; k++) {
        char *from = scratch + written[k].offset;
        memcpy(written[k].to, from, written[k].is_text ? strnlen(from, written[k].size - 1) + 1 : written[k].size);
    }
    return result;
}
const struct call *kc_call_of(const char *name) {
    for (size_t n = 0; n < kc_call_count; n++)
        if (!strcmp(kc_calls[n].name, name)) return &kc_calls[n];
    return NULL;
}

/* --- errors that the program does not read */

static int unread;
void kc_failed(const char *name, int error, const char *kernel) {
    if (!kc_owner || kc_is_forked) return;
    __atomic_store_n(&unread, 1, __ATOMIC_RELEASE);
    REMOTE("kcheckFailed", A(name), A(error), A(kc_error_name(error)), A(kernel));
}
void kc_read(int error) {
    if (!__atomic_load_n(&unread, __ATOMIC_ACQUIRE) || kc_is_forked) return;
    if (!error) __atomic_store_n(&unread, 0, __ATOMIC_RELEASE);
    REMOTE("kcheckErrorRead", A(error));
}
