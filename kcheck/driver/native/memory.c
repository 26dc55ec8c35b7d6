/* Memory, copies, arrays, textures, streams, events. */
#include "runtime.h"

/* --- allocations */

static int allocate(void **out, size_t size) {
    handle address = 0;
    if (!out) return INVALID_VALUE;
    int error = size ? DRIVER(cuMemAlloc, A(&address), size) : 0;
    *out = (void *)address;
    return error;
}
API int cudaMalloc(void **out, size_t size) { RETURN(allocate(out, size)); }

/* Memory of graphs keeps its address, also if the program frees it outside of the graph. */
static struct kept { void *address; struct kept *next; } *kept;
static int is_kept(const void *address) {
    const struct kept *k = __atomic_load_n(&kept, __ATOMIC_ACQUIRE);
    while (k && k->address != address) k = k->next;
    return k != NULL;
}
int kc_allocate_for_graph(void **out, size_t size) {
    int error = allocate(out, size);
    struct kept *made = error || !*out ? NULL : malloc(sizeof *made);
    if (!made) return error;
    *made = (struct kept){*out, kept};
    while (!__atomic_compare_exchange_n(&kept, &made->next, made, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {}
#ifdef KCHECK_CLIENT
    DRIVER(kcheckKept, A(*out));
#endif
    return 0;
}
static int release(void *address) { return address && !is_kept(address) ? DRIVER(cuMemFree, A(address)) : 0; }
API int cudaFree(void *address) { RETURN(release(address)); }

static int allocate_managed(void **out, size_t size, u32 flags) {
    if (!out || !size || (flags != 1 && flags != 2)) return INVALID_VALUE;
    return DRIVER(cuMemAllocManaged, A(out), size, flags);
}
API int cudaMallocManaged(void **out, size_t size, u32 flags) { RETURN(allocate_managed(out, size, flags)); }

static int allocate_host(void **out, size_t size, u32 flags) {
    if (!out) return INVALID_VALUE;
    *out = NULL;
    return size ? DRIVER(cuMemHostAlloc, A(out), size, flags) : 0;
}
API int cudaHostAlloc(void **out, size_t size, u32 flags) { RETURN(allocate_host(out, size, flags)); }
API int cudaMallocHost(void **out, size_t size) { RETURN(allocate_host(out, size, 0)); }
API int cudaFreeHost(void *address) { RETURN(address ? DRIVER(cuMemFreeHost, A(address)) : 0); }
API int cudaHostRegister(void *address, size_t size, u32 flags) { RETURN(DRIVER(cuMemHostRegister, A(address), size, flags)); }
API int cudaHostUnregister(void *address) { RETURN(DRIVER(cuMemHostUnregister, A(address))); }
API int cudaHostGetDevicePointer(void **out, void *address, u32 flags) {
    RETURN(DRIVER(cuMemHostGetDevicePointer, A(out), A(address), flags));
}
API int cudaHostGetFlags(u32 *out, void *address) { RETURN(DRIVER(cuMemHostGetFlags, A(out), A(address))); }

struct pitched { void *address; size_t pitch, width, height; };
struct extent { size_t width, height, depth; };
static int allocate_pitched(void **out, size_t *pitch, size_t width, size_t height) {
    *pitch = (width + 511) / 512 * 512;
    return allocate(out, *pitch * height);
}
API int cudaMallocPitch(void **out, size_t *pitch, size_t width, size_t height) {
    RETURN(allocate_pitched(out, pitch, width, height));
}
static int allocate_3d(struct pitched *out, struct extent e) {
    out->width = e.width, out->height = e.height;
    return allocate_pitched(&out->address, &out->pitch, e.width, e.height * e.depth);
}
API int cudaMalloc3D(struct pitched *out, struct extent extent) { RETURN(allocate_3d(out, extent)); }
API int cudaMemGetInfo(size_t *free, size_t *total) { RETURN(DRIVER(cuMemGetInfo, A(free), A(total))); }

/* Allocations in the order of a stream; a captured one is a node of the graph. */
static int allocate_in(void **out, size_t size, handle stream) {
    if (!out) return INVALID_VALUE;
    if (kc_captured(stream)) return kc_allocate_for_graph(out, size);
    return size ? DRIVER(cuMemAllocAsync, A(out), size, stream) : allocate(out, 0);
}
API int cudaMallocAsync(void **out, size_t size, handle stream) { RETURN(allocate_in(out, size, stream)); }
API int cudaMallocFromPoolAsync(void **out, size_t size, handle pool, handle stream) {
    (void)pool;
    RETURN(allocate_in(out, size, stream));
}
static int free_in(void *address, handle stream) {
    return !address || kc_captured(stream) || is_kept(address) ? 0 : DRIVER(cuMemFreeAsync, A(address), stream);
}
API int cudaFreeAsync(void *address, handle stream) { RETURN(free_in(address, stream)); }
PER_THREAD(cudaMallocAsync, _ptsz)
PER_THREAD(cudaMallocFromPoolAsync, _ptsz)
PER_THREAD(cudaFreeAsync, _ptsz)
API int cudaDeviceGetDefaultMemPool(handle *out, int device) { RETURN(DRIVER(cuDeviceGetDefaultMemPool, A(out), A(device))); }
API int cudaDeviceGetMemPool(handle *out, int device) { RETURN(DRIVER(cuDeviceGetMemPool, A(out), A(device))); }
API int cudaDeviceSetMemPool(int device, handle pool) { RETURN(DRIVER(cuDeviceSetMemPool, A(device), pool)); }
API int cudaMemPoolCreate(handle *out, const void *properties) { RETURN(DRIVER(cuMemPoolCreate, A(out), A(properties))); }
API int cudaMemPoolDestroy(handle pool) { RETURN(DRIVER(cuMemPoolDestroy, pool)); }
API int cudaMemPoolSetAttribute(handle pool, int n, void *value) { RETURN(DRIVER(cuMemPoolSetAttribute, pool, A(n), A(value))); }
API int cudaMemPoolGetAttribute(handle pool, int n, void *out) { RETURN(DRIVER(cuMemPoolGetAttribute, pool, A(n), A(out))); }
API int cudaMemPoolTrimTo(handle pool, size_t size) { RETURN(DRIVER(cuMemPoolTrimTo, pool, size)); }
API int cudaMemPoolSetAccess(handle pool, const void *access, size_t count) {
    (void)access, (void)count;
    RETURN(DRIVER(cuMemPoolSetAccess, pool, 0, 0));
}

struct pointer_attributes { int type, device; void *on_device, *on_host; long reserved[8]; };
static int pointer_attributes(struct pointer_attributes *out, const void *address) {
    u32 type = 0, is_managed = 0;
    memset(out, 0, offsetof(struct pointer_attributes, reserved));
    if (DRIVER(cuPointerGetAttribute, A(&type), 2, A(address))) {
        out->device = -2, out->on_host = (void *)address; /* cudaMemoryTypeUnregistered, cudaInvalidDeviceId */
        return 0;
    }
    DRIVER(cuPointerGetAttribute, A(&is_managed), 8, A(address));
    out->type = is_managed ? 3 : (int)type;
    DRIVER(cuPointerGetAttribute, A(&out->on_device), 3, A(address));
    if (type == 1 || is_managed) out->on_host = (void *)address;
    return 0;
}
API int cudaPointerGetAttributes(struct pointer_attributes *out, const void *address) { RETURN(pointer_attributes(out, address)); }

/* Where managed memory lies is up to the system; these are hints. */
static int is_known(const void *address) {
    u32 type;
    return DRIVER(cuPointerGetAttribute, A(&type), 2, A(address)) ? INVALID_VALUE : 0;
}
API int cudaMemPrefetchAsync(const void *address, size_t size) { (void)size; RETURN(is_known(address)); }
API int cudaMemAdvise(const void *address, size_t size) { (void)size; RETURN(is_known(address)); }
API int cudaStreamAttachMemAsync(handle stream, void *address) { (void)stream; RETURN(is_known(address)); }
extern __typeof__(cudaMemPrefetchAsync) cudaMemPrefetchAsync_v2 __attribute__((alias("cudaMemPrefetchAsync"), visibility("default")));
extern __typeof__(cudaMemAdvise) cudaMemAdvise_v2 __attribute__((alias("cudaMemAdvise"), visibility("default")));
PER_THREAD(cudaMemPrefetchAsync, _ptsz)
PER_THREAD(cudaStreamAttachMemAsync, _ptsz)

/* --- linear copies and fills */

int kc_copy(handle to, handle from, size_t size, int kind, handle stream) {
    if (!size) return 0;
    switch (kind) {
    case 0: case 4: return DRIVER(cuMemcpyAsync, to, from, size, stream);
    case 1: return DRIVER(cuMemcpyHtoDAsync, to, from, size, stream);
    case 2: return DRIVER(cuMemcpyDtoHAsync, to, from, size, stream);
    case 3: return DRIVER(cuMemcpyDtoDAsync, to, from, size, stream);
    }
    return INVALID_COPY_DIRECTION;
}
static int copy(void *to, const void *from, size_t size, int kind, handle stream) {
    struct work work = {.kind = WORK_COPY, .target = A(to), .source = A(from), .size = size, .copy_kind = kind};
    return kc_do(&work, stream);
}
API int cudaMemcpy(void *to, const void *from, size_t size, int kind) { RETURN(copy(to, from, size, kind, 0)); }
API int cudaMemcpyAsync(void *to, const void *from, size_t size, int kind, handle stream) {
    RETURN(copy(to, from, size, kind, stream));
}
API int cudaMemcpyPeer(void *to, int device, const void *from, int other, size_t size) {
    RETURN(device | other ? INVALID_DEVICE : copy(to, from, size, 3, 0));
}
API int cudaMemcpyPeerAsync(void *to, int device, const void *from, int other, size_t size, handle stream) {
    RETURN(device | other ? INVALID_DEVICE : copy(to, from, size, 3, stream));
}
PER_THREAD(cudaMemcpy, _ptds)
PER_THREAD(cudaMemcpyAsync, _ptsz)

static int copy_symbol(const void *symbol, void *other, size_t size, size_t offset, int kind, handle stream, int is_to) {
    handle address;
    size_t bytes;
    int error = kc_symbol(symbol, &address, &bytes);
    if (error) return error;
    if (offset > bytes || size > bytes - offset) return INVALID_VALUE;
    void *place = (void *)(address + offset);
    return is_to ? copy(place, other, size, kind, stream) : copy(other, place, size, kind, stream);
}
API int cudaMemcpyToSymbol(const void *symbol, const void *from, size_t size, size_t offset, int kind) {
    RETURN(copy_symbol(symbol, (void *)from, size, offset, kind, 0, 1));
}
API int cudaMemcpyFromSymbol(void *to, const void *symbol, size_t size, size_t offset, int kind) {
    RETURN(copy_symbol(symbol, to, size, offset, kind, 0, 0));
}
API int cudaMemcpyToSymbolAsync(const void *symbol, const void *from, size_t size, size_t offset, int kind, handle stream) {
    RETURN(copy_symbol(symbol, (void *)from, size, offset, kind, stream, 1));
}
API int cudaMemcpyFromSymbolAsync(void *to, const void *symbol, size_t size, size_t offset, int kind, handle stream) {
    RETURN(copy_symbol(symbol, to, size, offset, kind, stream, 0));
}
PER_THREAD(cudaMemcpyToSymbol, _ptds)
PER_THREAD(cudaMemcpyFromSymbol, _ptds)
PER_THREAD(cudaMemcpyToSymbolAsync, _ptsz)
PER_THREAD(cudaMemcpyFromSymbolAsync, _ptsz)

static int fill(void *to, size_t pitch, int value, size_t width, size_t height, handle stream) {
    struct work work = {.kind = WORK_FILL, .target = A(to), .pitch = pitch, .value = (unsigned char)value, .width = 1,
                        .size = width, .height = height};
    return kc_do(&work, stream);
}
API int cudaMemset(void *to, int value, size_t size) { RETURN(fill(to, 0, value, size, 1, 0)); }
API int cudaMemsetAsync(void *to, int value, size_t size, handle stream) { RETURN(fill(to, 0, value, size, 1, stream)); }
API int cudaMemset2D(void *to, size_t pitch, int value, size_t width, size_t height) {
    RETURN(fill(to, pitch, value, width, height, 0));
}
API int cudaMemset2DAsync(void *to, size_t pitch, int value, size_t width, size_t height, handle stream) {
    RETURN(fill(to, pitch, value, width, height, stream));
}
static int fill_3d(struct pitched p, int value, struct extent e, handle stream) {
    int error = 0;
    for (size_t z = 0; z < e.depth && !error; z++)
        error = fill((char *)p.address + z * p.pitch * p.height, p.pitch, value, e.width, e.height, stream);
    return error;
}
API int cudaMemset3D(struct pitched p, int value, struct extent e) { RETURN(fill_3d(p, value, e, 0)); }
API int cudaMemset3DAsync(struct pitched p, int value, struct extent e, handle stream) { RETURN(fill_3d(p, value, e, stream)); }
PER_THREAD(cudaMemset, _ptds)
PER_THREAD(cudaMemset2D, _ptds)
PER_THREAD(cudaMemset3D, _ptds)
PER_THREAD(cudaMemsetAsync, _ptsz)
PER_THREAD(cudaMemset2DAsync, _ptsz)
PER_THREAD(cudaMemset3DAsync, _ptsz)

/* --- arrays */

struct channel { int x, y, z, w, kind; };
struct array { size_t width, height, depth; u32 format, channels, flags, padding; };
static int format_of(const struct channel *c, u32 *format, u32 *channels) {
    static const u32 formats[3][3] = {{0x08, 0x09, 0x0a}, {0x01, 0x02, 0x03}, {0, 0x10, 0x20}};
    int size = c->x == 8 ? 0 : c->x == 16 ? 1 : c->x == 32 ? 2 : -1;
    if (size < 0 || c->kind < 0 || c->kind > 2 || !formats[c->kind][size]) return 20; /* cudaErrorInvalidChannelDescriptor */
    *format = formats[c->kind][size];
    *channels = 1 + (c->y > 0) + (c->z > 0) + (c->w > 0);
    return 0;
}
static u32 bytes_of(const struct array *a) {
    u32 f = a->format;
    return a->channels * (f == 0x20 || f == 0x03 || f == 0x0a ? 4 : f == 0x01 || f == 0x08 ? 1 : 2);
}
API struct channel cudaCreateChannelDesc(int x, int y, int z, int w, int kind) { return (struct channel){x, y, z, w, kind}; }
static int create_array(handle *out, const struct channel *c, struct extent e, u32 flags) {
    struct array a = {e.width, e.height, e.depth, 0, 0, flags, 0};
    int error = format_of(c, &a.format, &a.channels);
    return error ? error : DRIVER(cuArray3DCreate, A(out), A(&a));
}
API int cudaMallocArray(handle *out, const struct channel *c, size_t width, size_t height, u32 flags) {
    RETURN(create_array(out, c, (struct extent){width, height, 0}, flags));
}
API int cudaMalloc3DArray(handle *out, const struct channel *c, struct extent e, u32 flags) { RETURN(create_array(out, c, e, flags)); }
API int cudaFreeArray(handle array) { RETURN(array ? DRIVER(cuArrayDestroy, array) : 0); }
static int array_info(struct channel *c, struct extent *e, u32 *flags, handle array) {
    struct array a;
    int error = DRIVER(cuArray3DGetDescriptor, A(&a), array);
    if (error) return error;
    int bits = (int)(8 * bytes_of(&a) / a.channels);
    if (c) *c = (struct channel){bits, a.channels > 1 ? bits : 0, a.channels > 2 ? bits : 0, a.channels > 3 ? bits : 0,
                                 a.format >= 0x10 ? 2 : a.format >= 8 ? 0 : 1};
    if (e) *e = (struct extent){a.width, a.height, a.depth};
    if (flags) *flags = a.flags;
    return 0;
}
API int cudaArrayGetInfo(struct channel *c, struct extent *e, u32 *flags, handle array) { RETURN(array_info(c, e, flags, array)); }
API int cudaGetChannelDesc(struct channel *c, handle array) { RETURN(array_info(c, NULL, NULL, array)); }

/* --- copies of boxes: each is a CUDA_MEMCPY3D, whose words are numbered */

enum { X, Y, Z, LEVEL, MEMORY, HOST, DEVICE, ARRAY, RESERVED, PITCH, HEIGHT, SIDE = 11, WIDTH_BYTES = 22, ROWS, SLICES };
static void linear(u64 *side, const void *address, size_t pitch, size_t height, int is_host) {
    side[MEMORY] = is_host < 0 ? 4 : is_host ? 1 : 2;
    side[is_host > 0 ? HOST : DEVICE] = A(address);
    side[PITCH] = pitch, side[HEIGHT] = height;
}
static void in_array(u64 *side, handle array, size_t x, size_t y) {
    side[MEMORY] = 3, side[ARRAY] = array, side[X] = x, side[Y] = y;
}
static int is_host(int kind, int is_source) { return kind == 4 ? -1 : is_source ? kind == 0 || kind == 1 : kind == 0 || kind == 2; }
static int box(struct work *w, size_t width, size_t height, size_t depth, handle stream) {
    if (!width || !height || !depth) return 0;
    w->kind = WORK_COPY_BOX, w->box[WIDTH_BYTES] = width, w->box[ROWS] = height, w->box[SLICES] = depth;
    return kc_do(w, stream);
}
static int copy_2d(void *to, size_t tp, const void *from, size_t fp, size_t width, size_t height, int kind, handle stream) {
    struct work w = {0};
    if (width > tp || width > fp) return 12; /* cudaErrorInvalidPitchValue */
    linear(w.box, from, fp, height, is_host(kind, 1));
    linear(w.box + SIDE, to, tp, height, is_host(kind, 0));
    return box(&w, width, height, 1, stream);
}
API int cudaMemcpy2D(void *to, size_t tp, const void *from, size_t fp, size_t width, size_t height, int kind) {
    RETURN(copy_2d(to, tp, from, fp, width, height, kind, 0));
}
API int cudaMemcpy2DAsync(void *to, size_t tp, const void *from, size_t fp, size_t width, size_t height, int kind, handle stream) {
    RETURN(copy_2d(to, tp, from, fp, width, height, kind, stream));
}
PER_THREAD(cudaMemcpy2D, _ptds)
PER_THREAD(cudaMemcpy2DAsync, _ptsz)
static int copy_array(handle array, size_t x, size_t y, void *other, size_t pitch, size_t width, size_t height, int kind,
                      handle stream, int is_to) {
    struct work w = {0};
    in_array(w.box + (is_to ? SIDE : 0), array, x, y);
    linear(w.box + (is_to ? 0 : SIDE), other, pitch, height, is_host(kind, is_to));
    return box(&w, width, height, 1, stream);
}
API int cudaMemcpy2DToArray(handle a, size_t x, size_t y, const void *from, size_t pitch, size_t width, size_t height, int kind) {
    RETURN(copy_array(a, x, y, (void *)from, pitch, width, height, kind, 0, 1));
}
API int cudaMemcpy2DToArrayAsync(handle a, size_t x, size_t y, const void *from, size_t pitch, size_t width, size_t height,
                                 int kind, handle stream) {
    RETURN(copy_array(a, x, y, (void *)from, pitch, width, height, kind, stream, 1));
}
API int cudaMemcpy2DFromArray(void *to, size_t pitch, handle a, size_t x, size_t y, size_t width, size_t height, int kind) {
    RETURN(copy_array(a, x, y, to, pitch, width, height, kind, 0, 0));
}
API int cudaMemcpy2DFromArrayAsync(void *to, size_t pitch, handle a, size_t x, size_t y, size_t width, size_t height, int kind,
                                   handle stream) {
    RETURN(copy_array(a, x, y, to, pitch, width, height, kind, stream, 0));
}
/* A linear copy fills rows of the array, from an offset in bytes and a row on. */
static int copy_rows(handle array, size_t x, size_t y, char *other, size_t count, int kind, handle stream, int is_to) {
    struct array a;
    int error = DRIVER(cuArray3DGetDescriptor, A(&a), array);
    size_t row = a.width * bytes_of(&a);
    while (!error && count) {
        size_t rows = x || count < row ? 1 : count / row, width = count < row - x ? count : row - x;
        error = copy_array(array, x, y, other, width, width, rows, kind, stream, is_to);
        other += width * rows, count -= width * rows, y += rows, x = 0;
    }
    return error;
}
API int cudaMemcpyToArray(handle a, size_t x, size_t y, const void *from, size_t count, int kind) {
    RETURN(copy_rows(a, x, y, (char *)from, count, kind, 0, 1));
}
API int cudaMemcpyFromArray(void *to, handle a, size_t x, size_t y, size_t count, int kind) {
    RETURN(copy_rows(a, x, y, to, count, kind, 0, 0));
}
API int cudaMemcpyToArrayAsync(handle a, size_t x, size_t y, const void *from, size_t count, int kind, handle stream) {
    RETURN(copy_rows(a, x, y, (char *)from, count, kind, stream, 1));
}
API int cudaMemcpy2DArrayToArray(handle to, size_t tx, size_t ty, handle from, size_t fx, size_t fy, size_t width, size_t height,
                                 int kind) {
    struct work w = {0};
    (void)kind;
    in_array(w.box, from, fx, fy);
    in_array(w.box + SIDE, to, tx, ty);
    RETURN(box(&w, width, height, 1, 0));
}
PER_THREAD(cudaMemcpy2DToArray, _ptds)
PER_THREAD(cudaMemcpy2DFromArray, _ptds)
PER_THREAD(cudaMemcpyToArray, _ptds)
PER_THREAD(cudaMemcpyFromArray, _ptds)

struct position { size_t x, y, z; };
struct copy_params {
    handle from_array; struct position from_at; struct pitched from;
    handle to_array; struct position to_at; struct pitched to;
    struct extent extent; int kind;
};
static int side_of(u64 *side, handle array, struct position at, struct pitched p, int host, u32 element) {
    if (array) in_array(side, array, at.x * element, at.y);
    else linear(side, p.address, p.pitch, p.height, host), side[X] = at.x, side[Y] = at.y;
    side[Z] = at.z;
    return 0;
}
static int copy_3d(const struct copy_params *p, handle stream) {
    struct work w = {0};
    struct array a = {0};
    u32 element = 1; /* the extent is in elements if an array takes part, otherwise in bytes */
    handle array = p->from_array ? p->from_array : p->to_array;
    int error = array ? DRIVER(cuArray3DGetDescriptor, A(&a), array) : 0;
    if (error) return error;
    if (array) element = bytes_of(&a);
    side_of(w.box, p->from_array, p->from_at, p->from, is_host(p->kind, 1), element);
    side_of(w.box + SIDE, p->to_array, p->to_at, p->to, is_host(p->kind, 0), element);
    return box(&w, p->extent.width * element, p->extent.height, p->extent.depth, stream);
}
API int cudaMemcpy3D(const struct copy_params *p) { RETURN(copy_3d(p, 0)); }
API int cudaMemcpy3DAsync(const struct copy_params *p, handle stream) { RETURN(copy_3d(p, stream)); }
PER_THREAD(cudaMemcpy3D, _ptds)
PER_THREAD(cudaMemcpy3DAsync, _ptsz)

/* --- textures and surfaces */

struct resource { u32 kind, pad; u64 address; struct channel channel; u32 pad2; u64 sizes[3]; char rest[72]; u32 flags, pad3; };
struct driver_resource { u32 kind, pad; u64 address; u32 format, channels; u64 sizes[3]; char rest[88]; u32 flags, pad3; };
struct texture { u32 address[3], filter, read, srgb; float border[4]; u32 normalized, anisotropy, mip_filter; float levels[3]; u32 rest[2]; };
struct driver_texture { u32 address[3], filter, flags, anisotropy, mip_filter; float levels[3], border[4]; u32 reserved[12]; };

static int resource_of(struct driver_resource *out, const struct resource *r) {
    memset(out, 0, sizeof *out);
    out->kind = r->kind, out->address = r->address;
    if (r->kind < 2) return 0;
    memcpy(out->sizes, r->sizes, sizeof r->sizes);
    return format_of(&r->channel, &out->format, &out->channels);
}
static int create_texture(u64 *out, const struct resource *r, const struct texture *t) {
    struct driver_resource resource;
    struct driver_texture texture = {0};
    int error = resource_of(&resource, r);
    if (error) return error;
    memcpy(texture.address, t->address, sizeof t->address);
    memcpy(texture.border, t->border, sizeof t->border);
    texture.filter = t->filter, texture.anisotropy = t->anisotropy;
    texture.flags = (t->read ? 0 : 1) | (t->normalized ? 2 : 0) | (t->srgb ? 0x10 : 0);
    return DRIVER(cuTexObjectCreate, A(out), A(&resource), A(&texture), 0);
}
API int cudaCreateTextureObject(u64 *out, const struct resource *r, const struct texture *t, const void *view) {
    if (view) return kc_refuse("a resource view of a texture");
    RETURN(create_texture(out, r, t));
}
API int cudaDestroyTextureObject(u64 texture) { RETURN(texture ? DRIVER(cuTexObjectDestroy, texture) : 0); }
static int create_surface(u64 *out, const struct resource *r) {
    struct driver_resource resource;
    int error = resource_of(&resource, r);
    return error ? error : DRIVER(cuSurfObjectCreate, A(out), A(&resource));
}
API int cudaCreateSurfaceObject(u64 *out, const struct resource *r) { RETURN(create_surface(out, r)); }
API int cudaDestroySurfaceObject(u64 surface) { RETURN(surface ? DRIVER(cuSurfObjectDestroy, surface) : 0); }

/* --- streams and events */

API int cudaStreamCreate(handle *out) { RETURN(DRIVER(cuStreamCreate, A(out), 0)); }
API int cudaStreamCreateWithFlags(handle *out, u32 flags) { RETURN(DRIVER(cuStreamCreate, A(out), flags)); }
API int cudaStreamCreateWithPriority(handle *out, u32 flags, int priority) {
    RETURN(DRIVER(cuStreamCreateWithPriority, A(out), flags, A(priority)));
}
API int cudaStreamDestroy(handle stream) { RETURN(DRIVER(cuStreamDestroy, stream)); }
API int cudaStreamSynchronize(handle stream) {
    RETURN(kc_captured(stream) ? CAPTURE_UNSUPPORTED : DRIVER(cuStreamSynchronize, stream));
}
API int cudaStreamQuery(handle stream) { RETURN(DRIVER(cuStreamQuery, stream)); }
API int cudaStreamGetFlags(handle stream, u32 *out) { RETURN(DRIVER(cuStreamGetFlags, stream, A(out))); }
API int cudaStreamGetPriority(handle stream, int *out) { RETURN(DRIVER(cuStreamGetPriority, stream, A(out))); }
API int cudaStreamGetId(handle stream, u64 *out) { RETURN(DRIVER(cuStreamGetId, stream, A(out))); }
API int cudaStreamGetDevice(handle stream, int *out) { RETURN(DRIVER(cuStreamGetDevice, stream, A(out))); }
API int cudaStreamSetAttribute(handle stream, int n, const void *v) { (void)stream, (void)n, (void)v; RETURN(0); }
API int cudaStreamGetAttribute(handle stream, int n, void *v) { (void)stream, (void)n; memset(v, 0, 64); RETURN(0); }
API int cudaStreamCopyAttributes(handle to, handle from) { (void)to, (void)from; RETURN(0); }
API int cudaStreamAddCallback(handle stream, const void *function, void *data, u32 flags) {
    RETURN(DRIVER(cuStreamAddCallback, stream, A(function), A(data), flags));
}
API int cudaLaunchHostFunc(handle stream, const void *function, void *data) {
    struct work work = {.kind = WORK_HOST, .target = A(function), .source = A(data)};
    RETURN(kc_do(&work, stream));
}
API int cudaDeviceSynchronize(void) { RETURN(DRIVER(cuCtxSynchronize, 0)); }
API int cudaThreadSynchronize(void) { return cudaDeviceSynchronize(); }
PER_THREAD(cudaStreamSynchronize, _ptsz)
PER_THREAD(cudaStreamQuery, _ptsz)
PER_THREAD(cudaStreamGetFlags, _ptsz)
PER_THREAD(cudaStreamGetPriority, _ptsz)
PER_THREAD(cudaStreamGetId, _ptsz)
PER_THREAD(cudaStreamGetDevice, _ptsz)
PER_THREAD(cudaStreamSetAttribute, _ptsz)
PER_THREAD(cudaStreamGetAttribute, _ptsz)
PER_THREAD(cudaStreamCopyAttributes, _ptsz)
PER_THREAD(cudaStreamAddCallback, _ptsz)
PER_THREAD(cudaLaunchHostFunc, _ptsz)

API int cudaEventCreate(handle *out) { RETURN(DRIVER(cuEventCreate, A(out), 0)); }
API int cudaEventCreateWithFlags(handle *out, u32 flags) { RETURN(DRIVER(cuEventCreate, A(out), flags)); }
API int cudaEventDestroy(handle event) { RETURN(DRIVER(cuEventDestroy, event)); }
API int cudaEventQuery(handle event) { RETURN(DRIVER(cuEventQuery, event)); }
API int cudaEventSynchronize(handle event) { RETURN(DRIVER(cuEventSynchronize, event)); }
API int cudaEventElapsedTime(float *out, handle first, handle last) { RETURN(DRIVER(cuEventElapsedTime, A(out), first, last)); }
API int cudaEventElapsedTime_v2(float *out, handle first, handle last) { return cudaEventElapsedTime(out, first, last); }
