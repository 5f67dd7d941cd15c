//! The conformance suite: every promise of [`Store`](crate::Store) as a named test, the same for every backend, and the
//! generators of the agreement tests. Compiled only for tests (feature `conformance`); no product contains it.
//!
//! A backend says where its stores live ([`Storage`]) and expands [`conformance_suite!`](crate::conformance_suite); one
//! whose storage outlives a store also expands [`durability_suite!`](crate::durability_suite).
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a test fails by panicking")]

use std::sync::Arc;

use crate::Store;
use crate::clock::ManualClock;

pub mod actions;
pub mod activity;
pub mod agreement;
pub mod any_command;
pub mod archive;
pub mod bulk;
pub mod bulk_actions;
pub mod bulk_portions;
pub mod claims;
pub mod commands;
pub mod concurrency;
pub mod counts;
pub mod creation;
pub mod delays;
pub mod dependencies;
pub mod dependency_cycles;
pub mod durability;
pub mod filters;
pub mod fixture;
pub mod generate;
pub mod held_heartbeats;
pub mod installation;
pub mod items;
pub mod kept_secret;
pub mod last_run;
pub mod leases;
pub mod lists;
pub mod long_reads;
pub mod model;
pub mod moved;
pub mod observations;
pub mod output;
pub mod output_bytes;
pub mod page_reader;
pub mod progress;
pub mod queues;
pub mod random;
pub mod related;
mod run_ends;
pub mod runs;
pub mod saved_activity;
pub mod settings;
mod special_suites;
pub mod stats;
pub mod telemetry;
pub mod updates;
pub mod waiting;
pub mod waiting_output;

/// A place where a store can be opened. Each test gets a fresh one; it is dropped when the test ends.
pub trait Storage {
    /// Opens the storage. Called again only after the store before has been closed and dropped.
    fn open(&self, clock: ManualClock) -> impl Future<Output = Arc<dyn Store>>;

    /// Whether activity is still there when it is opened again. It is not when that moves everything to another storage.
    fn keeps_activity(&self) -> bool {
        true
    }
}

/// So few tasks that a bulk action in these tests looks for more several times.
const FOUND_AT_ONCE: usize = 100;

/// Expands to one test for each name in each module of the suite.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_tests {
    ($fresh:ident; $($module:ident { $($name:ident)* })*) => {
        $(
            mod $module {
                $(
                    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                    async fn $name() {
                        let storage = super::$fresh();
                        $crate::conformance::$module::$name(&storage).await;
                    }
                )*
            }
        )*
    };
}

/// The tests that every backend passes: `conformance_suite!(fresh)`, where `fn fresh() -> impl Storage`.
#[macro_export]
macro_rules! conformance_suite {
    ($fresh:ident) => {
        $crate::conformance_tests! { $fresh;
            queues {
                a_fresh_store_has_no_queue
                a_queue_is_created_once
                queues_are_listed_by_code_point
                deleting_a_missing_queue_is_refused
                a_queue_with_tasks_is_deleted_only_with_cascade
                running_tasks_block_the_deletion_of_their_queue
                a_recreated_queue_is_empty
                cursors_of_an_earlier_queue_of_the_same_name_are_refused
                runs_of_an_earlier_queue_of_the_same_name_are_refused
                every_command_and_read_of_a_missing_queue_is_refused
                equal_ids_in_two_queues_do_not_touch_each_other
            }
            creation {
                a_new_task_is_pending_and_empty_with_equal_timestamps
                a_replay_returns_the_current_task_and_changes_nothing
                another_definition_is_a_conflict
                the_identity_is_that_of_the_creation_for_the_life_of_the_task
                the_id_of_a_deleted_task_is_free_again
                stored_data_of_exactly_the_limit_is_accepted_and_one_byte_more_refused
                an_oversized_creation_of_an_existing_id_is_a_conflict
                values_at_their_bounds_read_back
                a_missing_task_is_not_found
            }
            claims {
                highest_priority_first_then_first_in_first_out
                first_in_first_out_holds_inside_one_microsecond
                routes_match_exactly
                a_task_with_several_routes_is_claimed_once
                a_claim_sets_owner_attempt_and_times
                fail_unclaim_requeue_and_expiry_go_behind_every_task_of_their_priority
                only_pending_tasks_are_claimed
                a_replayed_claim_returns_the_same_task_and_the_unchanged_lease
                an_active_run_id_conflicts_with_another_queue_or_route
                a_used_run_id_never_claims_again
                run_ids_of_a_deleted_task_are_kept_for_a_day
                run_ids_of_a_deleted_queue_are_kept_for_a_day
                a_run_id_is_kept_from_the_deletion_of_its_task_and_not_from_its_end
            }
            runs {
                complete_stores_the_result_and_keeps_the_last_error
                fail_retries_below_the_budget_and_ends_at_it
                fail_without_retry_ends_below_the_budget_and_its_repetition_is_one
                unclaim_gives_the_attempt_back
                a_heartbeat_renews_the_lease_and_nothing_else
                a_repeated_end_changes_nothing
                a_contradictory_report_is_refused_with_what_ended_the_run
                stale_run_cannot_touch_a_newer_claim
                an_older_run_is_stale_once_the_newer_one_has_finished
                the_finished_run_is_known_after_requeue
                an_oversized_completion_is_refused_and_leaves_the_run_active
                error_texts_read_back
                reports_of_missing_tasks_and_other_queues_are_refused
            }
            last_run {
                a_claim_says_who_runs_a_task_and_every_end_of_the_run_keeps_it
                updates_and_reports_leave_who_ran_a_task_alone
                a_claim_without_a_worker_removes_who_ran_a_task
                a_replayed_claim_changes_nothing_whatever_it_says
                a_waiting_claim_says_who_claims
                the_worker_does_not_count_towards_the_stored_size
                filters_find_tasks_by_who_ran_them
            }
            actions {
                cancel_in_every_state
                requeue_in_every_state
                delete_in_every_state
                deleting_a_missing_task_is_done_already
                a_cancelled_task_is_not_claimed_until_it_is_requeued
            }
            delays {
                a_delayed_task_is_claimed_from_its_time_on_and_not_before
                a_delayed_task_has_the_place_that_it_got_at_its_creation
                many_tasks_of_one_time_are_all_there_when_it_comes
                a_failed_attempt_waits_before_the_next_one
                a_worker_says_how_long_the_next_attempt_waits
                an_update_moves_a_task_between_the_delay_and_the_order
                cancel_delete_and_requeue_of_a_delayed_task_leave_nothing_behind
                a_time_that_comes_wakes_a_waiting_claim
                a_run_that_is_active_for_too_long_is_ended_by_the_scan
                a_run_that_is_active_for_too_long_is_ended_by_its_next_call
                an_outage_is_not_held_against_the_time_of_a_run
                a_replayed_claim_of_a_run_that_took_too_long_is_refused
            }
            dependencies {
                a_task_that_waits_for_itself_waits_after_a_requeue_too
                a_task_is_claimed_when_the_last_of_its_dependencies_has_succeeded
                a_dependency_that_has_succeeded_before_is_not_waited_for
                a_missing_dependency_is_waited_for_until_it_was_created_and_has_succeeded
                a_task_of_another_queue_is_not_the_one_that_is_waited_for
                a_deleted_dependency_is_missing_again
                a_chain_and_a_diamond_run_in_their_order
                a_circle_and_a_task_that_waits_for_itself_wait
                a_circle_whose_task_is_cancelled_is_cancelled
                a_time_and_dependencies_must_both_be_over
                by_default_a_failed_dependency_is_waited_for_until_it_succeeds
                a_dependency_that_cannot_succeed_cancels_who_asked_for_it_down_the_chain
                a_dependency_that_failed_before_cancels_at_creation_update_and_requeue
                a_bulk_requeue_brings_a_chain_back_in_whatever_order_it_was_created
                a_bulk_requeue_leaves_what_would_be_cancelled_again
                who_saw_a_dependency_deleted_remembers_it_at_a_requeue
                a_dependency_that_failed_during_a_run_cancels_the_task_that_comes_back
                an_update_replaces_what_a_task_waits_for
                a_deleted_task_waits_for_nothing_any_more
                tasks_of_one_request_may_wait_for_each_other
                a_task_with_1000_dependencies_waits_for_the_last_one
                more_dependents_than_one_transaction_settles_are_all_settled
                a_long_chain_is_cancelled_to_its_end
                what_is_left_beside_a_long_chain_is_settled_too
                a_long_chain_against_the_order_of_ids_is_settled_beside_another
                a_dependency_that_succeeds_wakes_a_waiting_claim
                a_replay_of_the_creation_is_one_whatever_became_of_the_dependencies
                a_bulk_action_sees_what_it_has_done_to_tasks_that_wait
                a_bulk_update_that_cancels_a_task_cancels_those_that_wait_for_it
                a_bulk_update_with_more_dependencies_than_a_transaction_takes_is_refused_and_changes_nothing
            }
            dependency_cycles {
                a_task_that_waits_for_itself_is_told_so
                a_task_that_names_itself_is_told_so_however_many_wait_for_it
            }
            related {
                a_task_shows_what_it_waits_for_and_what_waits_for_it
                no_more_dependents_are_read_than_are_wanted_and_a_deleted_one_is_none
                a_list_says_how_many_dependencies_of_a_task_are_unmet
            }
            archive {
                lists_and_counts_leave_archived_tasks_out_unless_they_are_included
                bulk_updates_and_actions_leave_archived_tasks_out_unless_they_are_included
                a_bulk_update_archives_all_or_nothing
                archived_tasks_keep_their_queue_from_being_empty
                an_archived_task_that_has_succeeded_is_a_dependency_like_any_other
            }
            settings {
                settings_are_the_default_until_they_are_changed_and_go_with_their_queue
                a_new_queue_keeps_ended_tasks_as_it_is_told_and_one_that_is_there_as_before
                more_limits_of_routes_than_there_may_be_are_refused
                a_paused_queue_gives_no_task_and_lets_runs_go_on
                a_queue_never_has_more_running_tasks_than_its_limit
                a_route_never_has_more_running_tasks_than_its_limit
                a_resume_a_free_place_and_a_raised_limit_wake_waiting_claims
                a_task_of_several_routes_wakes_a_claim_whose_route_is_not_at_its_limit
                ended_tasks_are_deleted_when_their_time_is_over
                many_ended_tasks_are_deleted_some_at_a_time
                a_task_that_retention_deletes_is_deleted_for_those_that_wait_for_it
                an_explanation_says_why_a_task_is_not_claimed
                an_explanation_counts_who_comes_first_on_the_best_route
            }
            bulk_actions {
                a_bulk_action_changes_what_it_applies_to_and_nothing_else
                an_expectation_that_fails_changes_nothing
                a_dry_run_only_counts
                a_bulk_action_on_a_missing_queue_is_refused
                tasks_are_requeued_in_the_order_of_their_creation
                run_ids_of_tasks_that_a_bulk_action_deletes_stay_used
                a_bulk_action_does_what_a_loop_over_the_ids_does
                more_tasks_than_a_portion_are_all_done
            }
            updates {
                every_field_is_replaced
                an_update_that_changes_nothing_leaves_updated_at_alone
                a_patch_changes_the_members_that_it_names
                a_bulk_patch_is_applied_to_the_own_value_of_each_task
                a_bulk_patch_that_is_too_large_for_one_task_changes_none
                a_running_task_takes_no_update
                a_budget_that_leaves_no_attempt_is_refused_for_pending_tasks_only
                the_size_is_checked_with_the_resulting_values
                a_new_priority_moves_a_task_without_changing_its_place
                new_routes_move_a_task_without_changing_its_place
                bulk_updates_count_matches_and_changes_and_leave_running_tasks_out
                one_refusal_in_a_bulk_update_leaves_every_task_untouched
                bulk_updates_move_tasks_in_the_pending_order
            }
            lists {
                every_order_and_direction_equals_a_plain_sort_at_every_limit
                tasks_of_few_states_are_those_of_a_plain_choice_among_all
                selections_select_what_they_say
                a_page_ends_before_it_exceeds_its_bytes
                a_page_is_as_small_as_its_asker_has_room_for_but_never_empty
                a_cursor_is_a_position_and_not_a_row
                positions_of_other_queues_and_shapes_are_refused
            }
            counts {
                kept_counts_stay_right_after_every_kind_of_action
                groups_are_sorted_and_counted_in_every_dimension
                pages_of_groups_join_without_gap
                an_invalid_group_cursor_is_noticed_after_the_queue
            }
            observations {
                a_report_is_seen_until_it_expires
                the_route_of_a_current_observation_cannot_change
                observations_are_per_queue_and_withdrawn_by_id
                observations_are_listed_filtered_counted_and_grouped
                pages_of_observations_join_without_gap
                the_scan_drops_expired_observations
                observations_never_touch_tasks
            }
            progress {
                progress_is_shown_and_nothing_else_changes
                only_the_active_run_says_how_far_it_is
                progress_of_a_run_whose_lease_has_ended_ends_it
                progress_renews_no_lease_but_a_heartbeat_with_it_does
                a_heartbeat_without_progress_leaves_it_alone
                every_end_of_a_run_keeps_its_progress_and_the_next_claim_clears_it
                progress_counts_towards_the_stored_size
                a_claim_makes_room_by_clearing_progress
                a_result_that_is_there_leaves_less_room_for_progress
                progress_is_an_item_of_a_report_of_several_runs
                filters_find_tasks_by_progress
            }
            telemetry {
                telemetry_of_a_worker_that_is_not_observed_is_refused
                telemetry_is_shown_and_prolongs_nothing
                a_report_keeps_telemetry_and_an_expired_observation_has_none_left
                filters_find_workers_by_what_they_say_and_measure
                a_page_of_observations_ends_before_it_exceeds_its_bytes
            }
            stats {
                every_event_is_counted_once_whoever_repeats_it
                waits_count_from_creation_and_runs_from_the_claim
                figures_are_of_tasks_and_workers_by_route
                figures_are_of_the_queues_and_routes_that_were_asked_for
                a_queue_may_have_more_routes_than_are_held_at_a_time
                the_oldest_pending_task_is_found_behind_higher_priorities
                minutes_are_kept_for_a_day_and_hours_for_a_year
                a_series_holds_the_spans_that_were_asked_for
                a_queue_that_is_created_again_has_no_activity
                the_oldest_pending_task_is_another_one_after_any_change
                a_task_with_as_many_routes_as_it_may_have_counts_for_each
                pending_tasks_are_counted_by_what_they_wait_for
                figures_have_the_settings_of_their_queue
                an_observation_that_has_expired_is_no_worker
            }
            activity {
                items_of_a_batch_are_counted_one_by_one
                bulk_actions_count_each_task
                a_lease_that_a_late_report_ends_has_expired_once
                what_is_counted_is_what_changed
                rows_of_all_processes_add_up_and_saving_again_replaces
                hours_go_on_when_minutes_are_forgotten
                many_queues_are_counted_apart
                any_bounds_of_a_series_are_answered
                what_was_counted_for_a_later_hour_did_not_happen_in_the_last_one
            }
            output {
                what_a_run_prints_is_read_from_any_offset_and_changes_nothing_of_its_task
                a_task_that_printed_nothing_has_no_output
                output_that_is_turned_off_is_judged_and_not_kept
                only_a_run_that_is_known_prints
                a_finished_run_prints_until_the_next_one_does
                a_run_that_prints_nothing_leaves_the_output_of_the_one_before
                output_is_taken_when_the_lease_is_over
                output_goes_with_its_task
                output_goes_with_its_queue
            }
            output_bytes {
                repeated_and_overlapping_output_is_kept_as_it_came_first
                an_answer_ends_before_a_gap_and_a_gap_may_be_filled
                the_oldest_bytes_are_pushed_out_and_gaps_do_not_count
                what_was_pushed_out_may_come_again_when_more_is_kept
                bytes_that_are_kept_again_take_the_place_of_pushed_out_ones_and_of_no_others
                a_smaller_limit_shows_less_and_removes_nothing_before_the_next_output
                overlapping_output_that_is_sent_at_once_gives_the_same_bytes_in_any_order
                the_largest_offsets_are_kept
                characters_are_whole_at_every_border
                thousands_of_single_bytes_are_kept
                the_largest_texts_push_out_the_oldest
                an_answer_is_no_longer_than_it_may_be
                the_oldest_parts_go_when_there_are_too_many
                random_output_is_what_keeping_every_byte_by_itself_gives
            }
            installation {
                the_secret_is_the_same_whenever_it_is_asked_for
            }
            leases {
                a_lease_ends_at_the_scan_after_its_end
                runs_that_do_not_fit_one_scan_end_in_the_next_one
                a_heartbeat_keeps_a_run_alive
                the_last_attempt_fails_when_its_lease_ends
                a_report_of_an_expired_run_performs_the_expiry
                replaying_the_claim_of_an_expired_run_is_stale
                reads_and_actions_do_not_expire_a_lease
                after_an_outage_every_lease_is_good_for_the_credit
                a_heartbeat_before_the_scan_is_heard_after_an_outage
                a_credit_never_shortens_a_lease
                an_outage_is_credited_once
                a_scan_reports_what_it_did
            }
            concurrency {
                concurrent_claims_get_distinct_tasks
                concurrent_claims_with_one_run_id_take_one_task
                concurrent_creations_of_one_id_create_one_task
                concurrent_reports_end_a_run_once
                a_run_that_began_while_its_task_was_deleted_stays_used_up
                commuting_commands_together_equal_the_same_one_by_one
                claims_and_bulk_updates_never_mix
                a_busy_queue_loses_nothing
                a_storm_of_random_commands_keeps_every_invariant
            }
            items {
                commands_of_several_items_equal_their_items_one_by_one
                a_refused_item_leaves_the_others_alone
                a_missing_queue_refuses_the_whole
                a_thousand_items_are_one_command
                what_does_not_fit_into_the_answer_is_not_claimed
                a_repeated_claim_that_does_not_fit_is_not_answered_with_nothing
                tasks_that_were_created_together_wake_one_waiting_claim_each
                a_claim_of_several_waits_until_one_of_them_gets_a_task
                runs_that_were_ended_together_end_their_held_heartbeats
            }
            waiting {
                a_task_that_is_there_needs_no_wait
                everything_that_makes_a_task_claimable_wakes
                deleting_the_queue_wakes_its_waiters
                a_used_run_id_is_refused_at_once
                waiters_are_served_in_their_order_and_tasks_in_theirs
                who_left_takes_nothing_and_the_next_one_is_woken
                who_got_a_task_elsewhere_passes_the_wake_up_on
                a_task_with_two_routes_reaches_whoever_is_left
                a_stop_ends_all_waits
                a_thousand_waiters_and_a_thousand_creations_in_random_order
            }
            held_heartbeats {
                everything_that_ends_a_run_ends_its_held_heartbeats
                a_lease_is_renewed_before_it_is_held_and_told_as_it_was_renewed
                a_heartbeat_that_is_refused_is_not_held
                the_end_of_one_run_wakes_no_other
                an_end_during_the_renewal_is_not_missed
                an_end_at_any_moment_reaches_a_heartbeat_that_is_about_to_be_held
            }
            waiting_output {
                what_a_run_prints_reaches_all_who_wait_for_it_and_no_others
                everything_that_ends_a_run_ends_the_wait_for_its_output
                a_task_without_output_is_not_waited_for
                output_at_any_moment_reaches_a_read_that_is_about_to_wait
                an_end_at_any_moment_reaches_a_read_that_is_about_to_wait
            }
        }
    };
}
