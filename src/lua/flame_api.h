/*
** flame_api.h: the functions of flame.h and flame_lua.h as a table, for C modules of Lua that are
** not linked with flame: the module flame.so, and flame-lua, leave its address in the registry.
** Written by tools/abi/abi.lua from tools/abi/list.txt: new functions come at the end, none goes.
**
**   lua_getfield(L, LUA_REGISTRYINDEX, "flame.api");
**   const flame_api *f = (const flame_api *)lua_touserdata(L, -1);
**   if (!FLAME_HAS(f, exp)) return luaL_error(L, "this needs a later flame");
**   flame_tensor *y = f->exp(x);
*/
#ifndef FLAME_API_H
#define FLAME_API_H
#ifndef FLAME_LUA_H
#error "include flame_lua.h before flame_api.h"
#endif

/* Has the table a function? It may be of an older flame. */
#define FLAME_HAS(f, name) \
  ((f)->bytes >= offsetof(flame_api, name) + sizeof (f)->name)

typedef struct flame_api {
  size_t bytes;                 /* of the table that is there */
  __typeof__(&flame_open) open;
  __typeof__(&flame_close) close;
  __typeof__(&flame_error) error;
  __typeof__(&flame_error_code) error_code;
  __typeof__(&flame_clear_error) clear_error;
  __typeof__(&flame_interrupt) interrupt;
  __typeof__(&flame_limit_set) limit_set;
  __typeof__(&flame_limit_used) limit_used;
  __typeof__(&flame_limit_restart) limit_restart;
  __typeof__(&flame_fail) fail;
  __typeof__(&flame_version) version;
  __typeof__(&flame_from_data) from_data;
  __typeof__(&flame_borrow) borrow;
  __typeof__(&flame_from_dlpack) from_dlpack;
  __typeof__(&flame_to_dlpack) to_dlpack;
  __typeof__(&flame_full) full;
  __typeof__(&flame_uniform) uniform;
  __typeof__(&flame_normal) normal;
  __typeof__(&flame_randint) randint;
  __typeof__(&flame_seed) seed;
  __typeof__(&flame_free) free;
  __typeof__(&flame_context_of) context_of;
  __typeof__(&flame_ndim) ndim;
  __typeof__(&flame_size) size;
  __typeof__(&flame_numel) numel;
  __typeof__(&flame_dtype_of) dtype_of;
  __typeof__(&flame_device_of) device_of;
  __typeof__(&flame_dtype_name) dtype_name;
  __typeof__(&flame_dtype_size) dtype_size;
  __typeof__(&flame_item) item;
  __typeof__(&flame_read) read;
  __typeof__(&flame_eval) eval;
  __typeof__(&flame_device_count) device_count;
  __typeof__(&flame_synchronize) synchronize;
  __typeof__(&flame_memory) memory;
  __typeof__(&flame_empty_cache) empty_cache;
  __typeof__(&flame_save) save;
  __typeof__(&flame_load) load;
  __typeof__(&flame_load_all) load_all;
  __typeof__(&flame_unary) unary;
  __typeof__(&flame_binary) binary;
  __typeof__(&flame_ternary) ternary;
  __typeof__(&flame_reduce) reduce;
  __typeof__(&flame_number) number;
  __typeof__(&flame_sum_all) sum_all;
  __typeof__(&flame_mean_all) mean_all;
  __typeof__(&flame_neg) neg;
  __typeof__(&flame_abs) abs;
  __typeof__(&flame_sign) sign;
  __typeof__(&flame_square) square;
  __typeof__(&flame_sqrt) sqrt;
  __typeof__(&flame_rsqrt) rsqrt;
  __typeof__(&flame_reciprocal) reciprocal;
  __typeof__(&flame_cbrt) cbrt;
  __typeof__(&flame_exp) exp;
  __typeof__(&flame_exp2) exp2;
  __typeof__(&flame_expm1) expm1;
  __typeof__(&flame_log) log;
  __typeof__(&flame_log2) log2;
  __typeof__(&flame_log10) log10;
  __typeof__(&flame_log1p) log1p;
  __typeof__(&flame_sin) sin;
  __typeof__(&flame_cos) cos;
  __typeof__(&flame_tan) tan;
  __typeof__(&flame_asin) asin;
  __typeof__(&flame_acos) acos;
  __typeof__(&flame_atan) atan;
  __typeof__(&flame_sinh) sinh;
  __typeof__(&flame_cosh) cosh;
  __typeof__(&flame_tanh) tanh;
  __typeof__(&flame_asinh) asinh;
  __typeof__(&flame_acosh) acosh;
  __typeof__(&flame_atanh) atanh;
  __typeof__(&flame_erf) erf;
  __typeof__(&flame_erfc) erfc;
  __typeof__(&flame_erfinv) erfinv;
  __typeof__(&flame_lgamma) lgamma;
  __typeof__(&flame_digamma) digamma;
  __typeof__(&flame_trigamma) trigamma;
  __typeof__(&flame_floor) floor;
  __typeof__(&flame_ceil) ceil;
  __typeof__(&flame_round) round;
  __typeof__(&flame_trunc) trunc;
  __typeof__(&flame_frac) frac;
  __typeof__(&flame_relu) relu;
  __typeof__(&flame_sigmoid) sigmoid;
  __typeof__(&flame_softplus) softplus;
  __typeof__(&flame_isnan) isnan;
  __typeof__(&flame_isinf) isinf;
  __typeof__(&flame_isfinite) isfinite;
  __typeof__(&flame_logical_not) logical_not;
  __typeof__(&flame_bitwise_not) bitwise_not;
  __typeof__(&flame_add) add;
  __typeof__(&flame_sub) sub;
  __typeof__(&flame_mul) mul;
  __typeof__(&flame_div) div;
  __typeof__(&flame_pow) pow;
  __typeof__(&flame_floordiv) floordiv;
  __typeof__(&flame_mod) mod;
  __typeof__(&flame_fmod) fmod;
  __typeof__(&flame_maximum) maximum;
  __typeof__(&flame_minimum) minimum;
  __typeof__(&flame_atan2) atan2;
  __typeof__(&flame_hypot) hypot;
  __typeof__(&flame_copysign) copysign;
  __typeof__(&flame_eq) eq;
  __typeof__(&flame_ne) ne;
  __typeof__(&flame_lt) lt;
  __typeof__(&flame_le) le;
  __typeof__(&flame_gt) gt;
  __typeof__(&flame_ge) ge;
  __typeof__(&flame_logical_and) logical_and;
  __typeof__(&flame_logical_or) logical_or;
  __typeof__(&flame_logical_xor) logical_xor;
  __typeof__(&flame_bitwise_and) bitwise_and;
  __typeof__(&flame_bitwise_or) bitwise_or;
  __typeof__(&flame_bitwise_xor) bitwise_xor;
  __typeof__(&flame_where) where;
  __typeof__(&flame_clamp) clamp;
  __typeof__(&flame_sum) sum;
  __typeof__(&flame_prod) prod;
  __typeof__(&flame_amax) amax;
  __typeof__(&flame_amin) amin;
  __typeof__(&flame_argmax) argmax;
  __typeof__(&flame_argmin) argmin;
  __typeof__(&flame_any) any;
  __typeof__(&flame_all) all;
  __typeof__(&flame_matmul) matmul;
  __typeof__(&flame_linear) linear;
  __typeof__(&flame_mean) mean;
  __typeof__(&flame_var) var;
  __typeof__(&flame_logsumexp) logsumexp;
  __typeof__(&flame_softmax) softmax;
  __typeof__(&flame_log_softmax) log_softmax;
  __typeof__(&flame_layer_norm) layer_norm;
  __typeof__(&flame_group_norm) group_norm;
  __typeof__(&flame_gelu) gelu;
  __typeof__(&flame_silu) silu;
  __typeof__(&flame_dropout) dropout;
  __typeof__(&flame_embedding) embedding;
  __typeof__(&flame_cross_entropy) cross_entropy;
  __typeof__(&flame_attention) attention;
  __typeof__(&flame_arange) arange;
  __typeof__(&flame_cat) cat;
  __typeof__(&flame_stack) stack;
  __typeof__(&flame_pad) pad;
  __typeof__(&flame_reshape) reshape;
  __typeof__(&flame_permute) permute;
  __typeof__(&flame_transpose) transpose;
  __typeof__(&flame_slice) slice;
  __typeof__(&flame_select) select;
  __typeof__(&flame_expand) expand;
  __typeof__(&flame_squeeze) squeeze;
  __typeof__(&flame_unsqueeze) unsqueeze;
  __typeof__(&flame_index_select) index_select;
  __typeof__(&flame_gather) gather;
  __typeof__(&flame_scatter) scatter;
  __typeof__(&flame_scatter_add) scatter_add;
  __typeof__(&flame_index_copy) index_copy;
  __typeof__(&flame_index_add) index_add;
  __typeof__(&flame_tril) tril;
  __typeof__(&flame_triu) triu;
  __typeof__(&flame_cast) cast;
  __typeof__(&flame_to_device) to_device;
  __typeof__(&flame_clone) clone;
  __typeof__(&flame_detach) detach;
  __typeof__(&flame_write) write;
  __typeof__(&flame_write_slice) write_slice;
  __typeof__(&flame_requires_grad) requires_grad;
  __typeof__(&flame_backward) backward;
  __typeof__(&flame_grad_of) grad_of;
  __typeof__(&flame_zero_grad) zero_grad;
  __typeof__(&flame_grad_mode) grad_mode;
  __typeof__(&flame_apply) apply;
  __typeof__(&flame_call) call;
  __typeof__(&flame_method) method;
  __typeof__(&flame_object_free) object_free;
  __typeof__(&flame_object_context) object_context;
  __typeof__(&flame_values_free) values_free;
  __typeof__(&flame_kernel_open) kernel_open;
  __typeof__(&flame_kernel_free) kernel_free;
  __typeof__(&flame_kernel_run) kernel_run;
  __typeof__(&flame_kernel_param) kernel_param;
  __typeof__(&flame_kernel_source) kernel_source;
  __typeof__(&luaopen_flame) luaopen_flame;
  __typeof__(&flame_lua_context) lua_context;
  __typeof__(&flame_lua_push) lua_push;
  __typeof__(&flame_lua_get) lua_get;
  __typeof__(&flame_lua_new) lua_new;
  __typeof__(&flame_lua_open) lua_open;
  __typeof__(&flame_lua_pcall) lua_pcall;
  __typeof__(&flame_program_load) program_load;
  __typeof__(&flame_program_free) program_free;
  __typeof__(&flame_program_input) program_input;
  __typeof__(&flame_program_output) program_output;
  __typeof__(&flame_program_seed) program_seed;
  __typeof__(&flame_program_reset) program_reset;
  __typeof__(&flame_program_run) program_run;
} flame_api;

#ifdef FLAME_API_TABLE         /* in the module alone */
static const flame_api flame_api_table = { sizeof(flame_api),
  flame_open,
  flame_close,
  flame_error,
  flame_error_code,
  flame_clear_error,
  flame_interrupt,
  flame_limit_set,
  flame_limit_used,
  flame_limit_restart,
  flame_fail,
  flame_version,
  flame_from_data,
  flame_borrow,
  flame_from_dlpack,
  flame_to_dlpack,
  flame_full,
  flame_uniform,
  flame_normal,
  flame_randint,
  flame_seed,
  flame_free,
  flame_context_of,
  flame_ndim,
  flame_size,
  flame_numel,
  flame_dtype_of,
  flame_device_of,
  flame_dtype_name,
  flame_dtype_size,
  flame_item,
  flame_read,
  flame_eval,
  flame_device_count,
  flame_synchronize,
  flame_memory,
  flame_empty_cache,
  flame_save,
  flame_load,
  flame_load_all,
  flame_unary,
  flame_binary,
  flame_ternary,
  flame_reduce,
  flame_number,
  flame_sum_all,
  flame_mean_all,
  flame_neg,
  flame_abs,
  flame_sign,
  flame_square,
  flame_sqrt,
  flame_rsqrt,
  flame_reciprocal,
  flame_cbrt,
  flame_exp,
  flame_exp2,
  flame_expm1,
  flame_log,
  flame_log2,
  flame_log10,
  flame_log1p,
  flame_sin,
  flame_cos,
  flame_tan,
  flame_asin,
  flame_acos,
  flame_atan,
  flame_sinh,
  flame_cosh,
  flame_tanh,
  flame_asinh,
  flame_acosh,
  flame_atanh,
  flame_erf,
  flame_erfc,
  flame_erfinv,
  flame_lgamma,
  flame_digamma,
  flame_trigamma,
  flame_floor,
  flame_ceil,
  flame_round,
  flame_trunc,
  flame_frac,
  flame_relu,
  flame_sigmoid,
  flame_softplus,
  flame_isnan,
  flame_isinf,
  flame_isfinite,
  flame_logical_not,
  flame_bitwise_not,
  flame_add,
  flame_sub,
  flame_mul,
  flame_div,
  flame_pow,
  flame_floordiv,
  flame_mod,
  flame_fmod,
  flame_maximum,
  flame_minimum,
  flame_atan2,
  flame_hypot,
  flame_copysign,
  flame_eq,
  flame_ne,
  flame_lt,
  flame_le,
  flame_gt,
  flame_ge,
  flame_logical_and,
  flame_logical_or,
  flame_logical_xor,
  flame_bitwise_and,
  flame_bitwise_or,
  flame_bitwise_xor,
  flame_where,
  flame_clamp,
  flame_sum,
  flame_prod,
  flame_amax,
  flame_amin,
  flame_argmax,
  flame_argmin,
  flame_any,
  flame_all,
  flame_matmul,
  flame_linear,
  flame_mean,
  flame_var,
  flame_logsumexp,
  flame_softmax,
  flame_log_softmax,
  flame_layer_norm,
  flame_group_norm,
  flame_gelu,
  flame_silu,
  flame_dropout,
  flame_embedding,
  flame_cross_entropy,
  flame_attention,
  flame_arange,
  flame_cat,
  flame_stack,
  flame_pad,
  flame_reshape,
  flame_permute,
  flame_transpose,
  flame_slice,
  flame_select,
  flame_expand,
  flame_squeeze,
  flame_unsqueeze,
  flame_index_select,
  flame_gather,
  flame_scatter,
  flame_scatter_add,
  flame_index_copy,
  flame_index_add,
  flame_tril,
  flame_triu,
  flame_cast,
  flame_to_device,
  flame_clone,
  flame_detach,
  flame_write,
  flame_write_slice,
  flame_requires_grad,
  flame_backward,
  flame_grad_of,
  flame_zero_grad,
  flame_grad_mode,
  flame_apply,
  flame_call,
  flame_method,
  flame_object_free,
  flame_object_context,
  flame_values_free,
  flame_kernel_open,
  flame_kernel_free,
  flame_kernel_run,
  flame_kernel_param,
  flame_kernel_source,
  luaopen_flame,
  flame_lua_context,
  flame_lua_push,
  flame_lua_get,
  flame_lua_new,
  flame_lua_open,
  flame_lua_pcall,
  flame_program_load,
  flame_program_free,
  flame_program_input,
  flame_program_output,
  flame_program_seed,
  flame_program_reset,
  flame_program_run };
#endif
#endif
