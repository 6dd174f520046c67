"""Names beyond the first vocabulary, which ported programs use, and calls of them."""

from __future__ import annotations

FUNCTIONS = """
absolute negative multiply subtract divide true_divide fix sgn clip clamp_min clamp_max arccos
arccosh arcsin arcsinh arctan arctan2 arctanh greater greater_equal less less_equal not_equal concat
concatenate row_stack moveaxis swapaxes swapdims ger positive rsub deg2rad rad2deg sinc heaviside
signbit isposinf isneginf logaddexp2 ldexp erfinv
isclose allclose equal isin searchsorted bucketize bincount histc unique unique_consecutive
repeat_interleave median nanmedian quantile nanquantile cummax cummin logcumsumexp diff trapezoid
atleast_1d atleast_2d atleast_3d broadcast_tensors column_stack block_diag cartesian_prod diagflat
hsplit vsplit dsplit split_with_sizes ravel t adjoint slice_scatter select_scatter diagonal_scatter
masked_scatter scatter_reduce take
trace cross vdot dist chain_matmul matrix_power det slogdet logdet inverse cholesky cov corrcoef
linalg.cross linalg.vecdot linalg.multi_dot linalg.matrix_power linalg.det linalg.slogdet linalg.inv
linalg.solve linalg.cholesky
relu_ tril_indices triu_indices broadcast_shapes is_tensor is_floating_point is_complex numel
set_grad_enabled inference_mode scalar_tensor asarray finfo iinfo promote_types result_type can_cast
get_default_dtype hann_window hamming_window
"""

METHODS = """
absolute negative multiply subtract divide true_divide fix sgn clip clamp_min clamp_max arctan2
greater greater_equal less less_equal not_equal moveaxis swapaxes swapdims ger positive deg2rad
rad2deg sinc heaviside signbit isposinf isneginf logaddexp2 ldexp erfinv isclose allclose equal
bincount histc unique unique_consecutive repeat_interleave median nanmedian quantile nanquantile
cummax cummin logcumsumexp diff diagflat hsplit vsplit dsplit split_with_sizes ravel t adjoint
slice_scatter select_scatter diagonal_scatter masked_scatter scatter_reduce take
trace cross vdot dist matrix_power det slogdet logdet inverse cholesky cov corrcoef
expand_as view_as reshape_as put unfold cpu is_floating_point ndimension nelement
element_size new_tensor
relu_ tril_ triu_ masked_fill_ masked_scatter_ fill_diagonal_ scatter_ scatter_add_ scatter_reduce_
index_add_ index_copy_ index_fill_ index_put_ clip_ clamp_min_ clamp_max_ absolute_ negative_
multiply_ subtract_ divide_ logical_and_ logical_or_ logical_xor_ logical_not_ detach_
__iadd__ __isub__ __imul__ __itruediv__ __ipow__ __ifloordiv__ __imod__ __iand__ __ior__ __ixor__
"""

INIT = """
uniform_ normal_ constant_ ones_ zeros_ eye_ dirac_ orthogonal_ trunc_normal_ xavier_uniform_
xavier_normal_ kaiming_uniform_ kaiming_normal_ calculate_gain
"""

UTILITIES = """
weight_norm remove_weight_norm spectral_norm remove_spectral_norm
parametrize.register_parametrization parametrize.remove_parametrizations parametrize.is_parametrized
"""

FUNCTIONAL = "relu_ elu_ leaky_relu_ hardtanh_ celu_ selu_ rrelu_ threshold_"

CALLS = """
m.negative(x)
m.clip(x, -0.5, 0.5)
m.clamp_min(x, 0.1)
m.clamp_max(x, 0.1)
m.concat((x, y))
m.concatenate((x, y), 1)
m.row_stack((x, y))
m.moveaxis(t, 0, 2)
m.swapaxes(t, 0, 2)
m.swapdims(t, 1, 2)
m.ger(v, v)
m.positive(x)
m.rsub(x, y, alpha=2)
m.heaviside(m.sign(x.detach()) * (p.detach() > 2), y.detach())
m.ldexp(x, j)
m.erfinv(2 * u - 1)
m.isclose(x, x + 1e-9)
m.allclose(x, x)
m.equal(x, y)
m.isin(i, j)
m.isin(i, j, invert=True)
m.searchsorted(m.sort(v)[0], x, right=True)
m.searchsorted(m.sort(x, 1)[0], y)
m.bucketize(x, m.sort(v)[0])
m.bincount(index)
m.bincount(index, w3.detach(), 5)
m.histc(x, 4, -1, 1)
m.unique(i)
m.unique(i, return_inverse=True, return_counts=True)
m.unique_consecutive(m.sort(i.flatten())[0], return_inverse=True, return_counts=True)
m.repeat_interleave(x, 2, 1)
m.repeat_interleave(x, index, 0)
m.median(x)
m.median(x, 1)
m.median(x, 0, True)
m.nanmedian(x, 1)
m.quantile(x, 0.3, 1)
m.quantile(x, v.detach().abs().clamp(0, 1), 0, keepdim=True)
m.quantile(x, 0.4, 1, interpolation="nearest")
m.nanquantile(x, 0.7)
m.cummax(x, 1)
m.cummin(x, 0)
m.logcumsumexp(x, 1)
m.diff(x)
m.diff(x, 2, 0, prepend=y)
m.trapezoid(x)
m.trapezoid(x, v)
m.atleast_1d(v[0])
m.atleast_2d(v)
m.atleast_3d(x, v)
m.broadcast_tensors(x, v)
m.column_stack((w3, x))
m.block_diag(x, v, square)
m.cartesian_prod(v, w3)
m.diagflat(x, 1)
m.hsplit(x, 2)
m.vsplit(square, [1, 3])
m.dsplit(t, 2)
m.split_with_sizes(x, [1, 3], 1)
m.ravel(x)
m.t(x)
m.adjoint(t)
m.slice_scatter(x, y[:, :2], 1, 0, None, 2)
m.select_scatter(x, v, 0, -1)
m.diagonal_scatter(square, w3, 1)
m.masked_scatter(x, c, y)
m.scatter_reduce(x, 1, places, y, "sum")
m.scatter_reduce(x, 0, places[:, :2] % 3, y[:, :2], "prod")
m.scatter_reduce(x, 1, places // 2, y, "mean", include_self=False)
m.scatter_reduce(x, 1, places // 2, y, "amax")
m.scatter_reduce(x, 1, places // 2, y, "amin", include_self=False)
m.scatter_reduce(x, 1, places // 2, x, "amax")
m.take(x, places)
x.put(index, w3)
m.trace(square)
m.cross(x[:, :3], square[:3, 1:], dim=1)
m.vdot(v, w4)
m.dist(x, y)
m.chain_matmul(x, square, y.T)
m.matrix_power(square, 3)
m.det(square)
m.slogdet(square)
m.logdet(square @ square.T + m.eye(4))
m.inverse(square)
m.cholesky(square @ square.T + m.eye(4))
m.cov(x)
m.corrcoef(x)
m.linalg.cross(x[:, :3], square[:3, 1:])
m.linalg.vecdot(x, y)
m.linalg.multi_dot((v, square, y.T))
m.linalg.matrix_power(square, -2)
m.linalg.det(square)
m.linalg.slogdet(square)
m.linalg.inv(square)
m.linalg.solve(square, square.T @ y.T)
m.linalg.cholesky(square @ square.T + m.eye(4))
m.relu_(x * 2)
m.tril_indices(3, 4, 1)
m.triu_indices(4, 3)
m.broadcast_shapes((3, 1), (4,)) == (3, 4)
m.is_tensor(x)
m.is_floating_point(x)
m.is_complex(x)
m.numel(x)
m.inference_mode()(lambda: x * 2)()
m.scalar_tensor(2.5)
m.asarray([1.5, 2.5])
m.finfo(m.float32).eps
m.iinfo(m.int32).max
m.promote_types(m.int64, m.float16).itemsize
m.result_type(i, 2.5).itemsize
m.can_cast(m.float32, m.int64)
m.get_default_dtype().itemsize
m.hann_window(8)
m.hamming_window(7, periodic=False)
i.heaviside(j)
u.erfinv()
i.unique_consecutive()
x[:, :3].cross(square[:3, 1:], 1)
(square @ square.T + m.eye(4)).logdet()
(square @ square.T + m.eye(4)).cholesky()
x.view_as(y.T)
x.reshape_as(y.T)
v.expand_as(x)
t.unfold(2, 2, 1)
x.cpu()
x.is_floating_point()
x.ndimension()
x.nelement()
x.element_size()
x.new_tensor([1.5, 2.5])
(x * 2).relu_()
(x * 2).tril_(1)
(x * 2).triu_()
(x * 2).masked_fill_(c, 2.0)
(x * 2).masked_scatter_(c, y)
(square * 2).fill_diagonal_(3.0)
(x * 2).scatter_(1, places, y)
(x * 2).scatter_add_(1, places, y)
(x * 2).scatter_reduce_(1, places, y, "sum")
(x * 2).scatter_(1, places, 2.0)
(x * 2).index_add_(1, index, y[:, :3])
(x * 2).index_copy_(1, index, y[:, :3])
(x * 2).index_fill_(1, index, 2.0)
(x * 2).index_put_((index,), y)
(x * 2).clip_(-0.5, 0.5)
(x * 2).clamp_min_(0.1)
(x * 2).clamp_max_(0.1)
(x * 2).absolute_()
(x * 2).negative_()
(x * 2).multiply_(y)
(x * 2).subtract_(y)
(x * 2).divide_(p)
(x * 2).__iadd__(y)
(x * 2).__isub__(y)
(x * 2).__imul__(y)
(x * 2).__itruediv__(p)
(p * 2).__ipow__(y)
F.relu_(x * 2)
F.elu_(x * 2, 0.5)
F.leaky_relu_(x * 2, 0.2)
F.hardtanh_(x * 2, -0.5, 0.5)
F.celu_(x * 2, 0.5)
F.selu_(x * 2)
F.rrelu_(x * 2, 0.2, 0.2)
F.threshold_(x * 2, 0.1, 2.0)
"""

UNARY = """
absolute fix arccos arcsin arcsinh arctan arctanh deg2rad rad2deg sinc signbit isposinf isneginf
"""
BINARY = """
multiply subtract divide true_divide arctan2 greater greater_equal less less_equal not_equal
logaddexp2
"""
CALLS += "".join(f"m.{name}(u)\n" for name in UNARY.split())
CALLS += "".join(f"m.{name}(x, p)\n" for name in BINARY.split())
CALLS += "m.arccosh(p)\n"

IN_PLACE = """
m.sgn(x)
x.sgn()
i.__ifloordiv__(j)
i.__imod__(j)
i.__iand__(j)
i.__ior__(j)
i.__ixor__(j)
c.logical_and_(c)
c.logical_or_(c)
c.logical_xor_(c)
c.logical_not_()
(x * 2).detach_()
"""
