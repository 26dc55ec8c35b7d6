#pragma once
#include "kcheck_c.h"
