//! Suites for some backends only: long reads, bulk updates with a gate, and what storage keeps that outlives a store. The one that every
//! backend passes is in `mod.rs`.

/// The tests of stores that read outside the caller: `long_reads_suite!(fresh)`, where `fn fresh() -> impl Storage`.
#[macro_export]
macro_rules! long_reads_suite {
    ($fresh:ident) => {
        $crate::conformance_tests! { $fresh;
            long_reads {
                short_reads_end_while_long_ones_run
                a_read_that_nobody_waits_for_any_more_ends_soon
                closing_the_store_ends_its_long_reads
            }
        }
    };
}

/// The tests of bulk updates that others come in between of: `bulk_suite!(fresh)`, where `fn fresh() -> impl Storage`.
#[macro_export]
macro_rules! bulk_suite {
    ($fresh:ident) => {
        $crate::conformance_tests! { $fresh;
            bulk {
                what_is_created_between_plan_and_write_is_updated_too
                what_is_claimed_between_plan_and_write_is_left_out
                what_is_changed_between_plan_and_write_is_judged_as_it_is_then
                a_patch_is_merged_into_what_is_there_at_the_time_of_the_write
                what_is_deleted_between_plan_and_write_is_not_counted
                a_refusal_that_arises_between_plan_and_write_leaves_every_task_untouched
                a_queue_that_is_deleted_between_plan_and_write_is_not_found
                a_queue_that_is_made_again_between_plan_and_write_is_judged_anew
                more_changes_than_a_write_decides_again_are_judged_all_the_same
                what_is_written_has_the_time_of_the_write
                a_caller_that_leaves_between_plan_and_write_has_done_nothing
                random_writes_between_plan_and_write_give_the_same_as_before_it
                other_commands_are_done_while_bulk_updates_are_planned
            }
            bulk_portions {
                what_was_claimed_completed_changed_or_deleted_before_its_turn_is_decided_again
                tasks_are_decided_in_order_also_if_some_have_changed
                what_is_created_meanwhile_is_left_alone
                what_matches_only_later_is_not_done_beyond_the_number_that_was_counted
                others_are_served_between_two_portions
                a_queue_that_is_deleted_before_the_first_portion_is_not_found
                a_queue_that_is_deleted_between_two_portions_ends_the_action
                a_queue_that_is_made_again_is_left_alone
                a_caller_that_leaves_stops_the_action_and_what_is_done_stays
                repeating_an_action_that_was_stopped_does_the_rest
                more_tasks_than_are_found_at_once_are_done_each_once
                what_is_found_later_is_decided_as_it_is_then
                a_chain_in_random_order_is_requeued_at_once
                tasks_that_wait_for_several_in_random_order_are_requeued_at_once
                random_writes_before_the_portion_are_decided_as_they_are_then
            }
        }
    };
}

/// What outlives a store and is left behind by a move: `saved_activity_suite!(fresh)`, where `fn fresh() -> impl Storage`.
#[macro_export]
macro_rules! saved_activity_suite {
    ($fresh:ident) => {
        $crate::conformance_tests! { $fresh;
            saved_activity {
                activity_survives_and_is_added_to
            }
        }
    };
}

/// The secret of an installation, which outlives a store and is left behind by a move, too:
/// `kept_secret_suite!(fresh)`, where `fn fresh() -> impl Storage`.
#[macro_export]
macro_rules! kept_secret_suite {
    ($fresh:ident) => {
        $crate::conformance_tests! { $fresh;
            kept_secret {
                the_secret_outlives_the_store
            }
        }
    };
}

/// The tests of storage that outlives a store: `durability_suite!(fresh)`, where `fn fresh() -> impl Storage`.
#[macro_export]
macro_rules! durability_suite {
    ($fresh:ident) => {
        $crate::conformance_tests! { $fresh;
            durability {
                queues_tasks_and_identities_survive
                active_runs_and_their_leases_survive
                finished_and_past_runs_survive
                what_tasks_wait_for_survives
                who_ran_a_task_survives
                run_ids_of_deleted_tasks_survive
                the_pending_order_survives
                observations_survive
                progress_telemetry_and_output_survive
                cursors_survive
                counts_survive
                an_outage_between_two_opens_grants_the_credit
                a_deleted_queue_stays_deleted
                time_never_goes_back_over_a_restart
            }
        }
    };
}
