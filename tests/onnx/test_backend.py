"""The smaller tests of ONNX's backend suite; ``ci/onnx_backend.py`` runs all of them."""

from __future__ import annotations

import re
import warnings

import pytest

ABSENT = "the package onnx is not installed: pip install 'clnet[onnx]'"
load_model_tests = pytest.importorskip("onnx.backend.test.loader", reason=ABSENT).load_model_tests
suite = pytest.importorskip("ci.onnx_backend", reason=ABSENT)

# One of each op and form; kernels of rare types and long loops are left to the script.
NAMES = """
abs acos adagrad adam_multiple add add_bcast add_uint8 add_uint32 affine_grid_2d and_bcast3v1d
argmax_default_axis_random argmin_negative_axis_keepdims_example_select_last_index
ai_onnx_ml_tree_ensemble_set_membership ai_onnx_ml_array_feature_extractor
ai_onnx_ml_label_encoder_string_int attention_3d_gqa_causal attention_4d_with_qk_matmul_softcap
averagepool_2d_ceil averagepool_2d_pads_count_include_pad basic_conv_with_padding
conv_with_autopad_same batchnorm_example bitcast_2d_float32_to_int32
batchnorm_epsilon_training_mode bitshift_left_uint16 bitwise_not_2d blackmanwindow_symmetric
cast_FLOAT_to_FLOAT8E4M3FN cast_FLOAT_to_INT4 castlike_FLOAT_to_UINT2
cast_no_saturate_FLOAT_to_FLOAT8E5M2 cast_e8m0_FLOAT_to_FLOAT8E8M0 celu center_crop_pad_pad clip
clip_default_int8_min_expanded col2im_pads compress_1 concat_3d_axis_negative_1
constantofshape_int_zeros convinteger_with_padding convtranspose_autopad_same
convtranspose_output_shape cumsum_1d_reverse_exclusive depthtospace_crd_mode_example
dequantizelinear_blocked dequantizelinear_int4 det_nd div_int8 dropout_default_mask
dynamicquantizelinear_max_adjusted einsum_batch_diagonal elu_expanded_ver18 equal_string erf
expand_dim_changed eyelike_with_dtype flatten_negative_axis3 gather_negative_indices
gather_elements_negative_indices gathernd_example_int32_batch_dim1 gelu_tanh_1
gemm_default_vector_bias gemm_transposeA globalmaxpool gridsample_bicubic
group_normalization_example gru_seq_length gru_batchwise hardmax_axis_0 hardswish identity_opt
identity_sequence if if_seq if_opt instancenorm_example isinf_negative
layer_normalization_2d_axis_negative_1 layer_normalization_3d_axis1_epsilon_expanded
linear_attention_gated_delta logsoftmax_axis_1 loop11 loop13_seq lppool_2d_pads lrn
lstm_with_peepholes matmul_3d matmulinteger maxpool_2d_uint8
maxpool_with_argmax_2d_precomputed_pads maxunpool_export_with_output_shape mean_two_inputs
melweightmatrix mish mod_mixed_sign_int64 mod_mixed_sign_float32 momentum nesterov_momentum
nllloss_NCd1_mean_weight_negative_ii nonmaxsuppression_two_classes nonzero_example
onehot_negative_indices optional_has_element_empty_optional_input optional_get_element_sequence
constant_pad_negative_axes reflect_pad pow_types_float32_int64 prelu_broadcast qlinearconv
qlinearmatmul_3D_int8_float32 quantizelinear_uint16 quantizelinear_e4m3fn
range_float_type_positive_delta reduce_l1_keep_dims_random reduce_log_sum_exp_keepdims_random
reduce_max_bool_inputs reduce_sum_empty_set reduce_sum_empty_axes_input_noop
regex_full_match_basic reshape_negative_extended_dims
resize_downsample_scales_cubic_A_n0p5_exclude_outside resize_tf_crop_and_resize
resize_upsample_sizes_nearest_axes_2_3 reversesequence_batch rms_normalization_2d_axis0
roialign_mode_max rotary_embedding_interleaved round scan9_sum scan_sum
scatter_elements_with_reduction_max scatternd_add sce_NCd1d2d3_none_no_weight_negative_ii_log_prob
selu sequence_insert_at_front sequence_map_add_1_sequence_1_tensor_expanded shape_start_1_end_2
shrink_soft simple_rnn_with_initial_bias slice_neg_steps softmax_axis_1_expanded
spacetodepth_example split_variable_parts_1d_opset18 split_to_sequence_2 stft_with_window
string_concat strnormalizer_nostopwords_nochangecase string_split_basic swish_expanded
tensorscatter_circular tfidfvectorizer_tf_batch_uniandbigrams_skip5 thresholdedrelu top_k_smallest
tril_neg triu_one_row unique_sorted_with_axis_3d unique_not_sorted_without_axis
unsqueeze_unsorted_axes upsample_nearest where_long_example xor2d
"""


@pytest.fixture(scope="module")
def cases():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy's, over the answers
        return {case.name: case for case in load_model_tests(kind="node")}


@pytest.mark.parametrize("name", NAMES.split())
def test_node(cases, name):
    case = cases.get(f"test_{name}")
    if case is None:
        pytest.skip("this version of onnx has no such test")
    suite.run_case(case)


def test_exclusions_name_tests_that_are_there(cases):
    simple = {case.name for case in load_model_tests(kind="simple")}
    names = simple | set(cases)
    found = {pattern for name in names for pattern in suite.EXCLUDED if re.fullmatch(pattern, name)}
    assert found == set(suite.EXCLUDED)
    assert sum(suite.reason(name) is not None for name in cases) < 25
