"""What tests of passes, pipelines and backends share: models, strategies, the conformance kit."""
