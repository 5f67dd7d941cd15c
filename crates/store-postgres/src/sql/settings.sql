-- Sets the parameters of a writer's transaction, until its end. One prepared statement: nine SET LOCAL, parsed each time, took
-- as long as all lookups of a claim.
SELECT
    set_config('statement_timeout', '5s', true), set_config('lock_timeout', '4s', true),
    -- What a machine holds that was switched off. No transaction is without a statement for so long.
    set_config('idle_in_transaction_session_timeout', '30s', true),
    set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
    set_config('enable_mergejoin', 'off', true), set_config('enable_sort', 'off', true),
    set_config('jit', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true);
