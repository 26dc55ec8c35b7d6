// See cublas_v2.h.
#pragma once

#include <cublas_v2.h>

typedef struct cusolverDnContext* cusolverDnHandle_t;
typedef enum { CUSOLVER_STATUS_SUCCESS = 0 } cusolverStatus_t;
