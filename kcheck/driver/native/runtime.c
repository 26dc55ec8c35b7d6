/* Devices, errors, the code of the program, launches. */
#include "runtime.h"

#include <dlfcn.h>

/* --- the driver */

#ifndef KCHECK_CLIENT
static int unloading(u64 a, u64 b, u64 c, u64 d, u64 e, u64 f, u64 g, u64 h, u64 i, u64 j, u64 k, u64 l) {
    (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)h, (void)i, (void)j, (void)k, (void)l;
    return 4; /* cudaErrorCudartUnloading */
}
driver_function kc_resolve(const char *name) {
    static int (*look_up)(const char *, driver_function *, int, u64, int *);
    driver_function found = NULL;
    if (!look_up) {
        void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
        if (!driver) driver = dlopen("libcuda.so.1", RTLD_NOW);
        *(void **)&look_up = driver ? dlsym(driver, "cuGetProcAddress_v2") : NULL;
        if (!look_up) {
            fprintf(stderr, "kcheck: no CUDA driver (libcuda.so.1) in this process\n");
            abort();
        }
    }
    look_up(name, &found, 12000, 0, NULL);
    return found ? found : unloading; /* at exit, after Python */
}
#endif

static __thread int last_error;
static int sticky_error; /* of a kernel that failed: every later call returns it */

static int is_sticky(int error) { return error == 700 || (error >= 714 && error <= 719) || error == 702 || error == 710; }

static __thread const char *launched; /* the last kernel, by its mangled name */

int kc_keep_of(int error, const char *name) {
    if (!error || error == NOT_READY) return error;
    last_error = error;
    int has_message = is_sticky(error) || error == NO_KERNEL_IMAGE || error == 218 || error == NOT_SUPPORTED;
    if (!has_message) kc_failed(name, error, strstr(name, "LaunchKernel") || strstr(name, "LaunchCooperative") ? launched : NULL);
    return error;
}

int kc_refuse(const char *name) {
    fprintf(stderr, "kcheck: %s is not supported on the cpu device; it returns cudaErrorNotSupported\n", name);
    return kc_keep(NOT_SUPPORTED);
}

static int start(void) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static int done;
    pthread_mutex_lock(&lock);
    int error = done ? 0 : DRIVER(cuInit, 0);
    if (!error) done = 1;
    pthread_mutex_unlock(&lock);
    return error;
}

static __thread int has_context;

int kc_ready(void) {
    if (sticky_error) return sticky_error;
    if (has_context) return 0;
    int error = start();
    handle context = 0;
    if (!error) error = DRIVER(cuCtxGetCurrent, A(&context));
    if (!error && !context) {
        error = DRIVER(cuDevicePrimaryCtxRetain, A(&context), 0);
        if (!error) error = DRIVER(cuCtxSetCurrent, context);
    }
    has_context = !error;
    return error;
}

API int cudaGetLastError(void) {
    int error = last_error;
    last_error = sticky_error;
    if (error) kc_read(0);
    return error ? error : sticky_error;
}
API int cudaPeekAtLastError(void) {
    if (last_error) kc_read(0);
    return last_error ? last_error : sticky_error;
}

/* --- errors */

static const struct { int number; const char *name, *text; } errors[] = {
#include "errors.h"
};

static const char *error_text(int number, int is_name) {
    for (size_t n = 0; n < sizeof errors / sizeof *errors; n++)
        if (errors[n].number == number) return is_name ? errors[n].name : errors[n].text;
    return is_name ? "unrecognized error code" : "unrecognized error code";
}
#ifdef KCHECK_CLIENT
const char *kc_error_name(int error) { return error_text(error, 1); }
#endif
API const char *cudaGetErrorName(int number) {
    if (number) kc_read(number);
    return error_text(number, 1);
}
API const char *cudaGetErrorString(int number) {
    if (number) kc_read(number);
    return error_text(number, 0);
}

/* --- the code of the program */

struct module {
    const void **images; /* fat binaries; ends with NULL */
    const void *single[2];
    handle library;
    int error, is_loaded;
};
struct entry { /* of a kernel, or of a variable */
    const void *host;
    const char *name;
    struct module *module;
    handle kernel;
    size_t size;
    void **managed;
    struct entry *next;
};
#define BUCKETS 4096
static struct entry *entries[BUCKETS];
static struct entry *managed_entries;
static pthread_mutex_t code_lock = PTHREAD_MUTEX_INITIALIZER;

static size_t bucket(const void *host) { return (A(host) * 0x9E3779B97F4A7C15ull) >> 52; }

static struct entry *find(const void *host) {
    for (struct entry *e = entries[bucket(host)]; e; e = e->next)
        if (e->host == host) return e;
    return NULL;
}

static struct entry *add(const void *host, const char *name, void **module) {
    struct entry *e = calloc(1, sizeof *e);
    e->host = host, e->name = name, e->module = (struct module *)module;
    pthread_mutex_lock(&code_lock);
    e->next = entries[bucket(host)];
    __atomic_store_n(&entries[bucket(host)], e, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&code_lock);
    return e;
}

struct wrapper { int magic, version; const void *data; const void **prelinked; };

API void **__cudaRegisterFatBinary(const struct wrapper *wrapper) {
    struct module *module = calloc(1, sizeof *module);
    module->single[0] = wrapper->data;
    module->images = wrapper->version == 2 ? wrapper->prelinked : module->single;
    return (void **)module;
}
API void __cudaRegisterFatBinaryEnd(void **module) { (void)module; }
API void __cudaUnregisterFatBinary(void **module) {
    struct module *gone = (struct module *)module;
    pthread_mutex_lock(&code_lock);
    for (size_t n = 0; n < BUCKETS; n++)
        for (struct entry **at = &entries[n]; *at;)
            if ((*at)->module == gone) *at = (*at)->next; else at = &(*at)->next;
    pthread_mutex_unlock(&code_lock);
    if (gone->is_loaded && !gone->error) DRIVER(cuLibraryUnload, gone->library);
    gone->is_loaded = 0;
}
API void __cudaRegisterFunction(void **module, const char *host, char *device, const char *name, int limit, void *tid,
                                void *bid, void *block, void *grid, int *warp) {
    (void)device, (void)limit, (void)tid, (void)bid, (void)block, (void)grid, (void)warp;
    add(add(host, name, module), name, module); /* the entry itself is the handle of __cudaGetKernel */
}
API void __cudaRegisterVar(void **module, char *host, char *address, const char *name, int is_extern, size_t size,
                           int is_constant, int is_global) {
    (void)address, (void)is_extern, (void)is_constant, (void)is_global;
    add(host, name, module)->size = size;
}
API void __cudaRegisterHostVar(void **module, const char *name, char *host, size_t size) {
    add(host, name, module)->size = size;
}
API void __cudaRegisterManagedVar(void **module, void **host, char *address, const char *name, int is_extern, size_t size,
                                  int is_constant, int is_global) {
    (void)address, (void)is_extern, (void)is_constant, (void)is_global;
    struct entry *e = add(host, name, module);
    e->size = size, e->managed = host;
    pthread_mutex_lock(&code_lock);
    struct entry *copy = malloc(sizeof *copy);
    *copy = *e, copy->next = managed_entries, managed_entries = copy;
    pthread_mutex_unlock(&code_lock);
}
API void __cudaRegisterTexture(void **module, const void *host, const void **address, const char *name, int d, int n, int e) {
    (void)module, (void)host, (void)address, (void)d, (void)n, (void)e;
    fprintf(stderr, "kcheck: texture reference %s is not supported; use a texture object\n", name);
}
API void __cudaRegisterSurface(void **module, const void *host, const void **address, const char *name, int d, int e) {
    __cudaRegisterTexture(module, host, address, name, d, 0, e);
}
API void __cudaRegisterUnifiedTable(void **module, void *table) { (void)module, (void)table; }

/* Device code of several files that is linked (-rdc=true) comes as several fat binaries: kcheck links their PTX. */
static int load(struct module *module) {
    pthread_mutex_lock(&code_lock);
    if (!module->is_loaded) {
        int count = 0;
        while (module->images[count]) count++;
        module->error = DRIVER(kcheckLibraryLoad, A(&module->library), A(module->images), A(count));
        module->is_loaded = 1;
    }
    pthread_mutex_unlock(&code_lock);
    if (module->error) return module->error;
    for (struct entry *e = managed_entries; e; e = e->next) {
        size_t size;
        handle address = 0;
        if (e->module == module && !e->kernel && !DRIVER(cuLibraryGetGlobal, A(&address), A(&size), module->library, A(e->name))) {
            e->kernel = 1;
            *e->managed = (void *)address;
        }
    }
    return 0;
}

API char __cudaInitModule(void **module) {
    int error = kc_ready();
    if (!error) error = load((struct module *)module);
    kc_keep(error);
    return !error;
}

/* A kernel is named by the function of the host that starts it, or by what __cudaGetKernel returned for that. */
int kc_function(const void *function, handle *kernel) {
    struct entry *e = find(function);
    if (!e) return INVALID_DEVICE_FUNCTION;
    if (!e->kernel) {
        int error = load(e->module);
        if (!error) error = DRIVER(cuLibraryGetKernel, A(&e->kernel), e->module->library, A(e->name));
        if (error) return error == 500 ? INVALID_DEVICE_FUNCTION : error;
    }
    *kernel = e->kernel;
    return 0;
}

int kc_symbol(const void *symbol, handle *address, size_t *size) {
    struct entry *e = find(symbol);
    if (!e) return INVALID_SYMBOL;
    int error = load(e->module);
    size_t bytes = 0;
    handle at = 0;
    if (!error) error = DRIVER(cuLibraryGetGlobal, A(&at), A(&bytes), e->module->library, A(e->name));
    if (error) return error == 500 ? INVALID_SYMBOL : error;
    if (e->managed) at = A(*e->managed), bytes = e->size;
    if (address) *address = at;
    if (size) *size = bytes;
    return 0;
}
API int cudaGetSymbolAddress(void **out, const void *symbol) { RETURN(kc_symbol(symbol, (handle *)out, NULL)); }
API int cudaGetSymbolSize(size_t *out, const void *symbol) { RETURN(kc_symbol(symbol, NULL, out)); }

/* --- launches */

static __thread struct { dim grid, block; size_t shared; handle stream; } pushed[8];
static __thread int pushes;

API unsigned __cudaPushCallConfiguration(dim grid, dim block, size_t shared, handle stream) {
    if (pushes == 8) return 1;
    pushed[pushes].grid = grid, pushed[pushes].block = block;
    pushed[pushes].shared = shared, pushed[pushes++].stream = stream;
    return 0;
}
API int __cudaPopCallConfiguration(dim *grid, dim *block, size_t *shared, handle *stream) {
    if (!pushes) return kc_keep(52); /* cudaErrorMissingConfiguration */
    pushes--;
    *grid = pushed[pushes].grid, *block = pushed[pushes].block;
    *shared = pushed[pushes].shared, *stream = pushed[pushes].stream;
    return 0;
}

/* A kernel runs at once, but its failure is reported by the next call, as of a GPU. */
static int started(int error) {
    if (is_sticky(error)) {
        sticky_error = error;
        return 0;
    }
    return error == INVALID_VALUE ? INVALID_CONFIGURATION : error;
}
int kc_run_launch(handle kernel, dim g, dim b, size_t shared, handle stream, int cooperative, void **args) {
    int error;
    if (cooperative)
        error = DRIVER(cuLaunchCooperativeKernel, kernel, g.x, g.y, g.z, b.x, b.y, b.z, shared, stream, A(args));
    else
        error = DRIVER(cuLaunchKernel, kernel, g.x, g.y, g.z, b.x, b.y, b.z, shared, stream, A(args), 0);
    return started(error);
}
int kc_launch(handle kernel, dim grid, dim block, void **args, size_t shared, handle stream, int cooperative) {
    void *none[1] = {NULL};
    struct work work = {.kind = WORK_KERNEL, .target = kernel, .grid = grid, .block = block, .shared = shared,
                        .cooperative = cooperative, .args = args ? args : none};
    return kc_do(&work, stream);
}

static int launch(const void *function, dim grid, dim block, void **args, size_t shared, handle stream, int cooperative) {
    handle kernel;
    const struct entry *e = find(function);
    launched = e ? e->name : NULL;
    int error = kc_function(function, &kernel);
    return error ? error : kc_launch(kernel, grid, block, args, shared, stream, cooperative);
}
API int cudaLaunchKernel(const void *function, dim grid, dim block, void **args, size_t shared, handle stream) {
    RETURN(launch(function, grid, block, args, shared, stream, 0));
}
API int __cudaLaunchKernel(const void *kernel, dim grid, dim block, void **args, size_t shared, handle stream) {
    RETURN(launch(kernel, grid, block, args, shared, stream, 0));
}
API int cudaLaunchCooperativeKernel(const void *function, dim grid, dim block, void **args, size_t shared, handle stream) {
    RETURN(launch(function, grid, block, args, shared, stream, 1));
}
struct config { dim grid, block; size_t shared; handle stream; const char *attributes; u32 count; };
static int launch_config(const struct config *c, const void *function, void **args) {
    int cooperative = 0;
    for (u32 n = 0; n < c->count; n++) { /* an attribute is 8 bytes of its number, and 64 of its value */
        const u32 *attribute = (const u32 *)(c->attributes + 72 * n);
        if (attribute[0] == 2) cooperative = attribute[2] != 0;
        if (attribute[0] == 4 && attribute[2] * attribute[3] * attribute[4] > 1) return kc_refuse("a launch of clusters");
    }
    return launch(function, c->grid, c->block, args, c->shared, c->stream, cooperative);
}
API int cudaLaunchKernelExC(const struct config *config, const void *function, void **args) {
    RETURN(launch_config(config, function, args));
}
PER_THREAD(cudaLaunchKernel, _ptsz)
PER_THREAD(__cudaLaunchKernel, _ptsz)
PER_THREAD(cudaLaunchCooperativeKernel, _ptsz)
PER_THREAD(cudaLaunchKernelExC, _ptsz)

static int kernel_of(const void **out, const void *function) {
    struct entry *e = find(function);
    if (!e) return INVALID_DEVICE_FUNCTION;
    *out = e;
    return 0;
}
API int __cudaGetKernel(const void **out, const void *function) { return kc_keep(kernel_of(out, function)); }
API int cudaGetKernel(const void **out, const void *function) { return kc_keep(kernel_of(out, function)); }
API int cudaGetFuncBySymbol(handle *out, const void *function) { RETURN(kc_function(function, out)); }

struct function_attributes { size_t shared, constant, local; int fields[7], cluster[6], reserved[16]; };
static int function_attributes(struct function_attributes *out, const void *function) {
    handle kernel;
    int error = kc_function(function, &kernel), value[10] = {0};
    for (int n = 0; n < 10 && !error; n++) error = DRIVER(cuFuncGetAttribute, A(&value[n]), A(n), kernel);
    if (error) return error;
    memset(out, 0, offsetof(struct function_attributes, reserved));
    out->shared = value[1], out->constant = value[2], out->local = value[3];
    int fields[7] = {value[0], value[4], value[5], value[6], value[7], value[8], value[9]};
    memcpy(out->fields, fields, sizeof fields);
    return 0;
}
API int cudaFuncGetAttributes(struct function_attributes *out, const void *function) {
    RETURN(function_attributes(out, function));
}
static int set_attribute(const void *function, int number, int value) {
    handle kernel;
    int error = kc_function(function, &kernel);
    return error || number > 9 ? error : DRIVER(cuFuncSetAttribute, kernel, A(number), A(value));
}
API int cudaFuncSetAttribute(const void *function, int number, int value) { RETURN(set_attribute(function, number, value)); }
static int known(const void *function) { handle kernel; return kc_function(function, &kernel); }
API int cudaFuncSetCacheConfig(const void *function, int config) { (void)config; RETURN(known(function)); }
API int cudaFuncSetSharedMemConfig(const void *function, int config) { (void)config; RETURN(known(function)); }
static int function_name(const char **out, const void *function) {
    handle kernel;
    int error = kc_function(function, &kernel);
    return error ? error : DRIVER(cuFuncGetName, A(out), kernel);
}
API int cudaFuncGetName(const char **out, const void *function) { RETURN(function_name(out, function)); }

static int active_blocks(int *out, const void *function, int threads, size_t shared) {
    handle kernel;
    int error = kc_function(function, &kernel);
    return error ? error : DRIVER(cuOccupancyMaxActiveBlocksPerMultiprocessor, A(out), kernel, A(threads), shared);
}
API int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *out, const void *f, int threads, size_t shared) {
    RETURN(active_blocks(out, f, threads, shared));
}
API int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *out, const void *f, int threads, size_t shared, u32 flags) {
    (void)flags;
    RETURN(active_blocks(out, f, threads, shared));
}
static int free_shared(size_t *out, const void *function, int blocks, int threads) {
    int most = 0, active = 0, error = DRIVER(cuDeviceGetAttribute, A(&most), 97, 0);
    for (*out = 0; !error && (int)(*out + 1024) <= most; *out += 1024) {
        error = active_blocks(&active, function, threads, *out + 1024);
        if (active < blocks) break;
    }
    return error;
}
API int cudaOccupancyAvailableDynamicSMemPerBlock(size_t *out, const void *f, int blocks, int threads) {
    RETURN(free_shared(out, f, blocks, threads));
}

/* --- devices */

static __thread int device_flags;
static int check_device(int device) { return device ? INVALID_DEVICE : 0; }

API int cudaGetDeviceCount(int *out) { int e = start(); return kc_keep(e ? e : DRIVER(cuDeviceGetCount, A(out))); }
API int cudaGetDevice(int *out) { int e = start(); *out = 0; return kc_keep(e); }
API int cudaSetDevice(int device) { int e = check_device(device); if (e) return kc_keep(e); RETURN(0); }
API int cudaInitDevice(int device, u32 flags, u32 more) { (void)flags, (void)more; RETURN(check_device(device)); }
API int cudaSetDeviceFlags(u32 flags) { device_flags = (int)flags; RETURN(0); }
API int cudaGetDeviceFlags(u32 *flags) { *flags = (u32)device_flags; RETURN(0); }
API int cudaSetValidDevices(int *devices, int count) { (void)devices, (void)count; RETURN(0); }
API int cudaDeviceGetAttribute(int *out, int number, int device) {
    int e = start();
    return kc_keep(e ? e : DRIVER(cuDeviceGetAttribute, A(out), A(number), A(device)));
}
API int cudaDeviceReset(void) {
    int error = start();
    sticky_error = 0;
    if (!error) error = DRIVER(cuDevicePrimaryCtxReset, 0);
    pthread_mutex_lock(&code_lock);
    for (size_t n = 0; n < BUCKETS; n++)
        for (struct entry *e = entries[n]; e; e = e->next) e->kernel = 0, e->module->is_loaded = 0;
    for (struct entry *e = managed_entries; e; e = e->next) e->kernel = 0;
    pthread_mutex_unlock(&code_lock);
    return kc_keep(error);
}
API int cudaThreadExit(void) { return cudaDeviceReset(); }
API int cudaDriverGetVersion(int *out) { int e = start(); return kc_keep(e ? e : DRIVER(cuDriverGetVersion, A(out))); }
API int cudaRuntimeGetVersion(int *out) { *out = KCHECK_VERSION; return 0; }
API int cudaDeviceSetCacheConfig(int config) { (void)config; RETURN(0); }
API int cudaDeviceGetCacheConfig(int *config) { *config = 0; RETURN(0); }
API int cudaDeviceSetSharedMemConfig(int config) { (void)config; RETURN(0); }
API int cudaDeviceGetSharedMemConfig(int *config) { *config = 1; RETURN(0); }
API int cudaCtxResetPersistingL2Cache(void) { RETURN(0); }
API int cudaDeviceGetLimit(size_t *out, int limit) { RETURN(DRIVER(cuCtxGetLimit, A(out), A(limit))); }
API int cudaDeviceSetLimit(int limit, size_t value) { RETURN(DRIVER(cuCtxSetLimit, A(limit), value)); }
API int cudaDeviceGetPCIBusId(char *out, int size, int device) { RETURN(DRIVER(cuDeviceGetPCIBusId, A(out), A(size), A(device))); }
API int cudaDeviceGetByPCIBusId(int *out, const char *id) { RETURN(DRIVER(cuDeviceGetByPCIBusId, A(out), A(id))); }
API int cudaDeviceCanAccessPeer(int *out, int device, int peer) { *out = 0; RETURN(check_device(device | peer)); }
API int cudaDeviceEnablePeerAccess(int peer, u32 flags) { (void)flags; RETURN(peer ? INVALID_DEVICE : 217); }
API int cudaDeviceDisablePeerAccess(int peer) { RETURN(peer ? INVALID_DEVICE : PEER_NOT_ENABLED); }
API int cudaDeviceGetP2PAttribute(int *out, int number, int a, int b) { (void)number; *out = 0; RETURN(check_device(a | b)); }
API int cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    RETURN(DRIVER(cuCtxGetStreamPriorityRange, A(least), A(greatest)));
}
API int cudaDeviceFlushGPUDirectRDMAWrites(int target, int scope) { (void)target, (void)scope; RETURN(0); }
API int cudaProfilerStart(void) { RETURN(0); }
API int cudaProfilerStop(void) { RETURN(0); }
API int cudaGetExportTable(const void **out, const void *id) { (void)id; *out = NULL; return kc_keep(500); }
static int entry_point(const char *name, void **out, int *status) {
    *(driver_function *)out = kc_resolve(name);
    if (status) *status = *out ? 0 : 1;
    return 0;
}
API int cudaGetDriverEntryPoint(const char *name, void **out, u64 flags, int *status) {
    (void)flags;
    RETURN(entry_point(name, out, status));
}
API int cudaGetDriverEntryPointByVersion(const char *name, void **out, u32 version, u64 flags, int *status) {
    (void)version, (void)flags;
    RETURN(entry_point(name, out, status));
}
PER_THREAD(cudaGetDriverEntryPoint, _ptsz)
PER_THREAD(cudaGetDriverEntryPointByVersion, _ptsz)

API int cudaChooseDevice(int *out, const void *properties) { (void)properties; *out = 0; RETURN(0); }
