// Classes of the host's C++ library, as opaque bytes with their sizes in libstdc++: a class that device code uses may
// have such members. Their functions are not declared, so only code of the host can need more.
#pragma once

namespace kcheck_host {
template <int N> struct alignas(8) opaque {
  opaque() = delete;
  unsigned char bytes[N];
};
}

namespace std {
struct string : kcheck_host::opaque<32> {};
struct thread : kcheck_host::opaque<8> {};
struct mutex : kcheck_host::opaque<40> {};
template <class T, class A = void> struct vector : kcheck_host::opaque<24> {};
template <class A> struct vector<bool, A> : kcheck_host::opaque<40> {};
template <class T, class A = void> struct list : kcheck_host::opaque<24> {};
template <class T, class A = void> struct deque : kcheck_host::opaque<80> {};
template <class T, class C = void> struct queue : kcheck_host::opaque<80> {};
template <class T, class C = void> struct stack : kcheck_host::opaque<80> {};
template <class K, class C = void, class A = void> struct set : kcheck_host::opaque<48> {};
template <class K, class C = void, class A = void> struct multiset : kcheck_host::opaque<48> {};
template <class K, class V, class C = void, class A = void> struct map : kcheck_host::opaque<48> {};
template <class K, class V, class C = void, class A = void> struct multimap : kcheck_host::opaque<48> {};
template <class K, class H = void, class E = void, class A = void>
struct unordered_set : kcheck_host::opaque<56> {};
template <class K, class V, class H = void, class E = void, class A = void>
struct unordered_map : kcheck_host::opaque<56> {};
template <class T, class D = void> struct unique_ptr : kcheck_host::opaque<8> {};
template <class T> struct shared_ptr : kcheck_host::opaque<16> {};
template <class T> struct weak_ptr : kcheck_host::opaque<16> {};
template <class F> struct function : kcheck_host::opaque<32> {};
}
