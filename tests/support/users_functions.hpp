#pragma once

// A function of every name that a function of headroom's has, in the namespace of a user, for any arguments. Wherever one of
// them is looked at, even if it is not the best, the program does not compile.
//
// The names are those of the functions in namespace headroom and those in it, as clang++ -Xclang -ast-dump shows them, but for
// operators and for `children` and `headroom_tree`, which are the user's to write.

namespace users {

template <class Name, class...>
struct Looked {
  static_assert(!sizeof(Name*), "headroom calls a function without saying that it is its own");
  using up = void;
};

#define HEADROOM_TEST_NAME(name)                                                                                            \
  template <class... A, class = typename Looked<struct of_##name, A...>::up>                                                \
  void name(A&&...);                                                                                                        \
  template <class First, class... A, class = typename Looked<struct of_##name, A...>::up>                                   \
  void name(A&&...);                                                                                                        \
  template <class First, class Second, class... A, class = typename Looked<struct of_##name, A...>::up>                     \
  void name(A&&...);                                                                                                        \
  template <auto First, class... A, class = typename Looked<struct of_##name, A...>::up>                                    \
  void name(A&&...);                                                                                                        \
  template <class First, auto Second, class... A, class = typename Looked<struct of_##name, A...>::up>                      \
  void name(A&&...);                                                                                                        \
  template <class First, template <class...> class Second, class... A, class = typename Looked<struct of_##name, A...>::up> \
  void name(A&&...);

// clang-format off
HEADROOM_TEST_NAME(accumulate_into) HEADROOM_TEST_NAME(active_isa) HEADROOM_TEST_NAME(add_block) HEADROOM_TEST_NAME(add_group)
HEADROOM_TEST_NAME(add_in_double) HEADROOM_TEST_NAME(add_largest) HEADROOM_TEST_NAME(add_part_of_group)
HEADROOM_TEST_NAME(add_ranges) HEADROOM_TEST_NAME(add_to) HEADROOM_TEST_NAME(add_to_sum) HEADROOM_TEST_NAME(added)
HEADROOM_TEST_NAME(all_finite) HEADROOM_TEST_NAME(all_lanes) HEADROOM_TEST_NAME(all_reduce) HEADROOM_TEST_NAME(all_sixteen)
HEADROOM_TEST_NAME(any) HEADROOM_TEST_NAME(any_above) HEADROOM_TEST_NAME(any_beyond) HEADROOM_TEST_NAME(any_of)
HEADROOM_TEST_NAME(apex) HEADROOM_TEST_NAME(append_bar) HEADROOM_TEST_NAME(append_csv_field)
HEADROOM_TEST_NAME(append_csv_row) HEADROOM_TEST_NAME(append_csv_rows) HEADROOM_TEST_NAME(append_element)
HEADROOM_TEST_NAME(append_field) HEADROOM_TEST_NAME(append_index) HEADROOM_TEST_NAME(append_key)
HEADROOM_TEST_NAME(append_member) HEADROOM_TEST_NAME(append_name) HEADROOM_TEST_NAME(append_number)
HEADROOM_TEST_NAME(applied) HEADROOM_TEST_NAME(are_flat_and_dense) HEADROOM_TEST_NAME(are_plain_names)
HEADROOM_TEST_NAME(are_too_many_skips) HEADROOM_TEST_NAME(as_bfloat16) HEADROOM_TEST_NAME(as_elements)
HEADROOM_TEST_NAME(as_fields) HEADROOM_TEST_NAME(as_found) HEADROOM_TEST_NAME(as_half) HEADROOM_TEST_NAME(as_norm)
HEADROOM_TEST_NAME(as_report) HEADROOM_TEST_NAME(available_isas) HEADROOM_TEST_NAME(backed_off) HEADROOM_TEST_NAME(bit_cast)
HEADROOM_TEST_NAME(bits_lower) HEADROOM_TEST_NAME(blended) HEADROOM_TEST_NAME(broadcast) HEADROOM_TEST_NAME(cast)
HEADROOM_TEST_NAME(cast_into) HEADROOM_TEST_NAME(cerebras) HEADROOM_TEST_NAME(cerebras_cbfloat16)
HEADROOM_TEST_NAME(cerebras_fp16) HEADROOM_TEST_NAME(chainer) HEADROOM_TEST_NAME(changed_state) HEADROOM_TEST_NAME(check)
HEADROOM_TEST_NAME(check_can_be_scaled) HEADROOM_TEST_NAME(check_communicator) HEADROOM_TEST_NAME(check_count)
HEADROOM_TEST_NAME(check_distinct_elements) HEADROOM_TEST_NAME(check_duplicates) HEADROOM_TEST_NAME(check_factor)
HEADROOM_TEST_NAME(check_finds_nonfinite) HEADROOM_TEST_NAME(check_has_floats) HEADROOM_TEST_NAME(check_has_offsets)
HEADROOM_TEST_NAME(check_in) HEADROOM_TEST_NAME(check_is_executor) HEADROOM_TEST_NAME(check_is_optimizer)
HEADROOM_TEST_NAME(check_is_tree) HEADROOM_TEST_NAME(check_is_writable) HEADROOM_TEST_NAME(check_largest_finite)
HEADROOM_TEST_NAME(check_leaves_apart) HEADROOM_TEST_NAME(check_loss_scale) HEADROOM_TEST_NAME(check_max_norm)
HEADROOM_TEST_NAME(check_not_null) HEADROOM_TEST_NAME(check_not_shared) HEADROOM_TEST_NAME(check_order)
HEADROOM_TEST_NAME(check_replicas) HEADROOM_TEST_NAME(check_same_size)
HEADROOM_TEST_NAME(check_same_structure) HEADROOM_TEST_NAME(check_share) HEADROOM_TEST_NAME(check_spans)
HEADROOM_TEST_NAME(check_takes_blocks) HEADROOM_TEST_NAME(check_tensor_traits) HEADROOM_TEST_NAME(check_thread)
HEADROOM_TEST_NAME(check_tolerance) HEADROOM_TEST_NAME(check_walkable) HEADROOM_TEST_NAME(checked)
HEADROOM_TEST_NAME(choose_isa) HEADROOM_TEST_NAME(clip_by_global_norm) HEADROOM_TEST_NAME(clip_factor)
HEADROOM_TEST_NAME(combine) HEADROOM_TEST_NAME(combined) HEADROOM_TEST_NAME(common_divisor) HEADROOM_TEST_NAME(concat)
HEADROOM_TEST_NAME(config_of) HEADROOM_TEST_NAME(container_base) HEADROOM_TEST_NAME(convert_bits)
HEADROOM_TEST_NAME(convert_integer) HEADROOM_TEST_NAME(copy_elements) HEADROOM_TEST_NAME(count_nonfinite)
HEADROOM_TEST_NAME(count_shares) HEADROOM_TEST_NAME(cpu_has_avx2) HEADROOM_TEST_NAME(cpu_has_avx512)
HEADROOM_TEST_NAME(data_of) HEADROOM_TEST_NAME(deepspeed) HEADROOM_TEST_NAME(deepspeed_0_16)
HEADROOM_TEST_NAME(deepspeed_config) HEADROOM_TEST_NAME(delayed_shift) HEADROOM_TEST_NAME(dense_base)
HEADROOM_TEST_NAME(destinations_meet) HEADROOM_TEST_NAME(detach_thread) HEADROOM_TEST_NAME(digest)
HEADROOM_TEST_NAME(digest_with) HEADROOM_TEST_NAME(divided) HEADROOM_TEST_NAME(doublings) HEADROOM_TEST_NAME(duplicates_of)
HEADROOM_TEST_NAME(dynamic_range) HEADROOM_TEST_NAME(eformer) HEADROOM_TEST_NAME(element_count) HEADROOM_TEST_NAME(bits_alone) HEADROOM_TEST_NAME(empty_like) HEADROOM_TEST_NAME(fits_float)
HEADROOM_TEST_NAME(elements_to_line) HEADROOM_TEST_NAME(emily) HEADROOM_TEST_NAME(end_of_cluster)
HEADROOM_TEST_NAME(end_of_name) HEADROOM_TEST_NAME(enough_measured) HEADROOM_TEST_NAME(escaped) HEADROOM_TEST_NAME(exact_text)
HEADROOM_TEST_NAME(exp2_of) HEADROOM_TEST_NAME(explain_stranger) HEADROOM_TEST_NAME(explanation_of)
HEADROOM_TEST_NAME(exponent_histogram) HEADROOM_TEST_NAME(extended) HEADROOM_TEST_NAME(extent_at)
HEADROOM_TEST_NAME(extent_of) HEADROOM_TEST_NAME(factor_argument) HEADROOM_TEST_NAME(facts_below) HEADROOM_TEST_NAME(facts_of)
HEADROOM_TEST_NAME(fairseq) HEADROOM_TEST_NAME(field_exponents) HEADROOM_TEST_NAME(fields_of)
HEADROOM_TEST_NAME(find_exponents) HEADROOM_TEST_NAME(find_kernels) HEADROOM_TEST_NAME(find_loss_scale)
HEADROOM_TEST_NAME(find_nonfinite) HEADROOM_TEST_NAME(find_nonfinite_times) HEADROOM_TEST_NAME(finish_streaming)
HEADROOM_TEST_NAME(first_isa_index) HEADROOM_TEST_NAME(first_lanes) HEADROOM_TEST_NAME(flax)
HEADROOM_TEST_NAME(float_backoff_argument) HEADROOM_TEST_NAME(float_factor_argument)
HEADROOM_TEST_NAME(float_inverse_argument) HEADROOM_TEST_NAME(floor_advice) HEADROOM_TEST_NAME(floor_argument)
HEADROOM_TEST_NAME(floor_of) HEADROOM_TEST_NAME(floor_text) HEADROOM_TEST_NAME(flushes_subnormals) HEADROOM_TEST_NAME(fold)
HEADROOM_TEST_NAME(for_each_block) HEADROOM_TEST_NAME(for_each_leaf) HEADROOM_TEST_NAME(for_each_leaf_with_path)
HEADROOM_TEST_NAME(for_each_part) HEADROOM_TEST_NAME(force_isa) HEADROOM_TEST_NAME(from_json) HEADROOM_TEST_NAME(from_text)
HEADROOM_TEST_NAME(global_norm) HEADROOM_TEST_NAME(gradient_sums) HEADROOM_TEST_NAME(gradients_of) HEADROOM_TEST_NAME(grown)
HEADROOM_TEST_NAME(grows_to_infinity) HEADROOM_TEST_NAME(halves_added) HEADROOM_TEST_NAME(has_own_passes)
HEADROOM_TEST_NAME(held) HEADROOM_TEST_NAME(hex_digit) HEADROOM_TEST_NAME(histogram_csv) HEADROOM_TEST_NAME(histogram_text)
HEADROOM_TEST_NAME(histograms_of) HEADROOM_TEST_NAME(holds_normals) HEADROOM_TEST_NAME(id_of) HEADROOM_TEST_NAME(import_state)
HEADROOM_TEST_NAME(is_above) HEADROOM_TEST_NAME(is_as_wide_as_float) HEADROOM_TEST_NAME(is_at_floor)
HEADROOM_TEST_NAME(is_branch) HEADROOM_TEST_NAME(is_current_thread) HEADROOM_TEST_NAME(is_digit)
HEADROOM_TEST_NAME(is_dynamic_node) HEADROOM_TEST_NAME(is_finite) HEADROOM_TEST_NAME(is_finite_times)
HEADROOM_TEST_NAME(is_harmless) HEADROOM_TEST_NAME(is_in_vectors) HEADROOM_TEST_NAME(is_infinite)
HEADROOM_TEST_NAME(is_key_char) HEADROOM_TEST_NAME(is_measured) HEADROOM_TEST_NAME(is_nonfinite_at_floor)
HEADROOM_TEST_NAME(is_of_most) HEADROOM_TEST_NAME(is_on_cpu) HEADROOM_TEST_NAME(is_positive)
HEADROOM_TEST_NAME(is_power_of_two) HEADROOM_TEST_NAME(is_running) HEADROOM_TEST_NAME(is_short)
HEADROOM_TEST_NAME(is_streamed) HEADROOM_TEST_NAME(is_underflowing) HEADROOM_TEST_NAME(is_worth_streaming)
HEADROOM_TEST_NAME(is_zero) HEADROOM_TEST_NAME(isa_for) HEADROOM_TEST_NAME(isa_index) HEADROOM_TEST_NAME(jmp)
HEADROOM_TEST_NAME(join_thread) HEADROOM_TEST_NAME(joined) HEADROOM_TEST_NAME(keras) HEADROOM_TEST_NAME(kernel_for)
HEADROOM_TEST_NAME(kind_of_branch) HEADROOM_TEST_NAME(kind_of_node) HEADROOM_TEST_NAME(lanes_added)
HEADROOM_TEST_NAME(lanes_from) HEADROOM_TEST_NAME(larger) HEADROOM_TEST_NAME(largest_finite_times)
HEADROOM_TEST_NAME(largest_lane) HEADROOM_TEST_NAME(largest_of) HEADROOM_TEST_NAME(largest_with) HEADROOM_TEST_NAME(launder)
HEADROOM_TEST_NAME(layout_of) HEADROOM_TEST_NAME(leaf_count) 
HEADROOM_TEST_NAME(checked_layout_of) HEADROOM_TEST_NAME(container_like) HEADROOM_TEST_NAME(throw_too_many_dimensions) HEADROOM_TEST_NAME(computes_in_lanes) HEADROOM_TEST_NAME(is_of_spike_guard) HEADROOM_TEST_NAME(leaves_are_in_order) HEADROOM_TEST_NAME(load) HEADROOM_TEST_NAME(load_bits) HEADROOM_TEST_NAME(load_bytes)
HEADROOM_TEST_NAME(load_bytes_of_32) HEADROOM_TEST_NAME(load_part) HEADROOM_TEST_NAME(load_state) HEADROOM_TEST_NAME(load_u16)
HEADROOM_TEST_NAME(load_u32) HEADROOM_TEST_NAME(load_up_to) HEADROOM_TEST_NAME(loaded) HEADROOM_TEST_NAME(log2_below)
HEADROOM_TEST_NAME(log2_of) HEADROOM_TEST_NAME(loss_scale_config) HEADROOM_TEST_NAME(loss_scale_names)
HEADROOM_TEST_NAME(loss_text) HEADROOM_TEST_NAME(lowest_peak) HEADROOM_TEST_NAME(magnitude) HEADROOM_TEST_NAME(magnitudes)
HEADROOM_TEST_NAME(make_fields) HEADROOM_TEST_NAME(make_like) HEADROOM_TEST_NAME(make_loss_scale)
HEADROOM_TEST_NAME(make_struct_like) HEADROOM_TEST_NAME(marian) HEADROOM_TEST_NAME(marian_floor) HEADROOM_TEST_NAME(max_abs)
HEADROOM_TEST_NAME(max_abs_of) HEADROOM_TEST_NAME(max_of_abs) HEADROOM_TEST_NAME(may_be_16_bit_float)
HEADROOM_TEST_NAME(may_call) HEADROOM_TEST_NAME(may_round_otherwise) HEADROOM_TEST_NAME(measure)
HEADROOM_TEST_NAME(measure_pass) HEADROOM_TEST_NAME(megatron) HEADROOM_TEST_NAME(metaseq) HEADROOM_TEST_NAME(microseconds_now)
HEADROOM_TEST_NAME(mindformers_adaptive) HEADROOM_TEST_NAME(multiplied) HEADROOM_TEST_NAME(name_in_states)
HEADROOM_TEST_NAME(names_of_available_isas) HEADROOM_TEST_NAME(names_of_ranks) HEADROOM_TEST_NAME(narrow)
HEADROOM_TEST_NAME(nearest_magnitude) HEADROOM_TEST_NAME(nntrainer) HEADROOM_TEST_NAME(no_scale_helps)
HEADROOM_TEST_NAME(norm_of) HEADROOM_TEST_NAME(norm_of_all) HEADROOM_TEST_NAME(normal_edge) HEADROOM_TEST_NAME(obstacle_of)
HEADROOM_TEST_NAME(octave_level) HEADROOM_TEST_NAME(octaves_above_mean) HEADROOM_TEST_NAME(octaves_of_spike)
HEADROOM_TEST_NAME(on_every_cpu) HEADROOM_TEST_NAME(on_every_isa) HEADROOM_TEST_NAME(on_no_cpu) HEADROOM_TEST_NAME(one_more)
HEADROOM_TEST_NAME(onnxruntime) HEADROOM_TEST_NAME(openseq2seq_backoff) HEADROOM_TEST_NAME(operation)
HEADROOM_TEST_NAME(ordinary) HEADROOM_TEST_NAME(os_saves_registers) HEADROOM_TEST_NAME(overflow)
HEADROOM_TEST_NAME(overflow_edge) HEADROOM_TEST_NAME(packed_from) HEADROOM_TEST_NAME(packed_lower) HEADROOM_TEST_NAME(paddle)
HEADROOM_TEST_NAME(paddle_2_4) HEADROOM_TEST_NAME(parallel) HEADROOM_TEST_NAME(part_of) HEADROOM_TEST_NAME(path_of)
HEADROOM_TEST_NAME(pause_or_yield) HEADROOM_TEST_NAME(place_text) HEADROOM_TEST_NAME(places_of)
HEADROOM_TEST_NAME(plan_and_run) HEADROOM_TEST_NAME(plan_one) HEADROOM_TEST_NAME(plan_then_run) HEADROOM_TEST_NAME(plan_two)
HEADROOM_TEST_NAME(plus) HEADROOM_TEST_NAME(plus_exact_square) HEADROOM_TEST_NAME(plus_square)
HEADROOM_TEST_NAME(plus_unless_zero) HEADROOM_TEST_NAME(portable_kernel) HEADROOM_TEST_NAME(is_within)
HEADROOM_TEST_NAME(power_bits) HEADROOM_TEST_NAME(power_of_two) HEADROOM_TEST_NAME(prefetch) HEADROOM_TEST_NAME(prepare)
HEADROOM_TEST_NAME(quoted) HEADROOM_TEST_NAME(read_block) HEADROOM_TEST_NAME(read_cpu_has_avx2)
HEADROOM_TEST_NAME(read_cpu_has_avx512) HEADROOM_TEST_NAME(read_double) HEADROOM_TEST_NAME(read_largest_cache)
HEADROOM_TEST_NAME(read_strided_block) HEADROOM_TEST_NAME(rebiased) HEADROOM_TEST_NAME(rebound_node)
HEADROOM_TEST_NAME(rebound_struct) HEADROOM_TEST_NAME(rebound_tensor) HEADROOM_TEST_NAME(rebuilt)
HEADROOM_TEST_NAME(refusing_infinity) HEADROOM_TEST_NAME(register_held) HEADROOM_TEST_NAME(register_loss_scale)
HEADROOM_TEST_NAME(registered_name) HEADROOM_TEST_NAME(report_of) HEADROOM_TEST_NAME(rounded) HEADROOM_TEST_NAME(rounded_text)
HEADROOM_TEST_NAME(rounded_to_binary16) HEADROOM_TEST_NAME(rounded_to_brain16) HEADROOM_TEST_NAME(rounded_to_float)
HEADROOM_TEST_NAME(run) HEADROOM_TEST_NAME(run_blocks) HEADROOM_TEST_NAME(run_into) HEADROOM_TEST_NAME(run_kernel)
HEADROOM_TEST_NAME(run_part) HEADROOM_TEST_NAME(same_places) HEADROOM_TEST_NAME(scalar_type_of) HEADROOM_TEST_NAME(scale)
HEADROOM_TEST_NAME(scale_and_report) HEADROOM_TEST_NAME(scale_argument) HEADROOM_TEST_NAME(scale_by_any)
HEADROOM_TEST_NAME(scale_dynamic) HEADROOM_TEST_NAME(scale_first) HEADROOM_TEST_NAME(scale_in_place)
HEADROOM_TEST_NAME(scale_into) HEADROOM_TEST_NAME(scale_sixteen_bits) HEADROOM_TEST_NAME(scaled_scalar)
HEADROOM_TEST_NAME(select) HEADROOM_TEST_NAME(shape_each_like) HEADROOM_TEST_NAME(shape_like)
HEADROOM_TEST_NAME(shape_parts_like) HEADROOM_TEST_NAME(share_elements) HEADROOM_TEST_NAME(share_text)
HEADROOM_TEST_NAME(shift_exponents) HEADROOM_TEST_NAME(shift_exponents_or_scale)
HEADROOM_TEST_NAME(shift_right_to_nearest_even) HEADROOM_TEST_NAME(shortest_text) HEADROOM_TEST_NAME(simulate)
HEADROOM_TEST_NAME(simulate_step) HEADROOM_TEST_NAME(size_of) HEADROOM_TEST_NAME(skips_text)
HEADROOM_TEST_NAME(sleep_for_microseconds) HEADROOM_TEST_NAME(smaller) HEADROOM_TEST_NAME(sort_by_begin)
HEADROOM_TEST_NAME(spike_text) HEADROOM_TEST_NAME(spread_exponents) HEADROOM_TEST_NAME(square_root)
HEADROOM_TEST_NAME(start_thread) HEADROOM_TEST_NAME(starting_anywhere) HEADROOM_TEST_NAME(state_digest)
HEADROOM_TEST_NAME(state_format) HEADROOM_TEST_NAME(state_of) HEADROOM_TEST_NAME(step_takes_factor) HEADROOM_TEST_NAME(store)
HEADROOM_TEST_NAME(store_bytes) HEADROOM_TEST_NAME(store_part) HEADROOM_TEST_NAME(store_streaming)
HEADROOM_TEST_NAME(store_up_to) HEADROOM_TEST_NAME(stream) HEADROOM_TEST_NAME(streaming_form)
HEADROOM_TEST_NAME(streaming_threshold) HEADROOM_TEST_NAME(sum_of) HEADROOM_TEST_NAME(sum_of_registers)
HEADROOM_TEST_NAME(sum_of_rescaled) HEADROOM_TEST_NAME(takes_digest) HEADROOM_TEST_NAME(takes_factor)
HEADROOM_TEST_NAME(tensor_text) HEADROOM_TEST_NAME(throw_bad_leaf) HEADROOM_TEST_NAME(throw_bad_order)
HEADROOM_TEST_NAME(throw_bad_value) HEADROOM_TEST_NAME(throw_invalid_argument) HEADROOM_TEST_NAME(throw_isa_unavailable)
HEADROOM_TEST_NAME(throw_logic_error) HEADROOM_TEST_NAME(throw_none) HEADROOM_TEST_NAME(throw_null_leaf)
HEADROOM_TEST_NAME(throw_null_span) HEADROOM_TEST_NAME(throw_out_of_step) HEADROOM_TEST_NAME(throw_reduction_error)
HEADROOM_TEST_NAME(throw_sizes_differ) HEADROOM_TEST_NAME(throw_sizes_of_spans) HEADROOM_TEST_NAME(throw_spans_overlap)
HEADROOM_TEST_NAME(throw_structure_differs) HEADROOM_TEST_NAME(throw_system_error) HEADROOM_TEST_NAME(to_doubles)
HEADROOM_TEST_NAME(to_float) HEADROOM_TEST_NAME(to_json) HEADROOM_TEST_NAME(to_string) HEADROOM_TEST_NAME(to_text)
HEADROOM_TEST_NAME(torch) HEADROOM_TEST_NAME(totals_text) HEADROOM_TEST_NAME(transform) HEADROOM_TEST_NAME(transform_below)
HEADROOM_TEST_NAME(transform_in_place) HEADROOM_TEST_NAME(transform_into) HEADROOM_TEST_NAME(transform_register)
HEADROOM_TEST_NAME(transform_rest) HEADROOM_TEST_NAME(transform_streaming) HEADROOM_TEST_NAME(types_of)
HEADROOM_TEST_NAME(u16_above) HEADROOM_TEST_NAME(u32_above) HEADROOM_TEST_NAME(underflow_edge)
HEADROOM_TEST_NAME(underflow_text) HEADROOM_TEST_NAME(unmodified) HEADROOM_TEST_NAME(unscale)
HEADROOM_TEST_NAME(unscale_and_clip) HEADROOM_TEST_NAME(unscale_and_clip_in_place) HEADROOM_TEST_NAME(unscale_in_place)
HEADROOM_TEST_NAME(unscale_into) HEADROOM_TEST_NAME(unscale_pass) HEADROOM_TEST_NAME(unscaled)
HEADROOM_TEST_NAME(unscaling_by) HEADROOM_TEST_NAME(verdict_of) HEADROOM_TEST_NAME(visit_config) HEADROOM_TEST_NAME(wake_all)
HEADROOM_TEST_NAME(walk) HEADROOM_TEST_NAME(walk_alike) HEADROOM_TEST_NAME(walk_trees) HEADROOM_TEST_NAME(warm_up_text)
HEADROOM_TEST_NAME(what_it_says) HEADROOM_TEST_NAME(whole_bits) HEADROOM_TEST_NAME(widen) HEADROOM_TEST_NAME(with_tolerance)
HEADROOM_TEST_NAME(with_zero_last) HEADROOM_TEST_NAME(yield_thread)
// clang-format on
#undef HEADROOM_TEST_NAME

}  // namespace users
