# Routing: a key in a large map against the bare hash of the key, and the first
# use of a map in a session.
psql -Xq <<'END' >/dev/null
SELECT shardlet.create_map('m', shardlets => 10000);
SELECT shardlet.create_map('huge', shardlets => 65536);
SELECT shardlet.create_map('keys', 'list', '{text}');
SELECT shardlet.create_map('few', 'list', '{text}');
SELECT shardlet.assign_keys('few', 's1', ARRAY['k1', 'k2']);
END

keys=200000
figure "assign_keys of $keys keys, ms" "$(ms "SELECT shardlet.assign_keys('keys', NULL, array_agg('k' || g)) FROM generate_series(1, $keys) g")"
psql -Xqc "VACUUM ANALYZE"

hash="SELECT count(hashint8extended(g, 0)) FROM generate_series(1, 1000000) g"
figure "route of 1M keys, 10,000 shardlets / hashint8extended" \
	"$(ratio "SELECT count(shardlet.route('m', g)) FROM generate_series(1, 1000000) g" "$hash")" "4"
figure "route of 200k different keys, 200k in the list / 2" \
	"$(ratio "SELECT count(shardlet.route('keys', 'k' || g)) FROM generate_series(1, 200000) g" \
		"SELECT count(shardlet.route('few', 'k' || g % 2 + 1)) FROM generate_series(1, 200000) g")"
figure "first route in a map of 65,536 shardlets, ms" \
	"$(for _ in $(seq "$rounds"); do ms "SELECT shardlet.route('huge', 1)"; done | median)" "100"
figure "memory of that map, MB" \
	"$(psql -XAtq -c "SELECT shardlet.route('huge', 1)" -c "SELECT round(sum(total_bytes) / 1e6, 1)
		FROM pg_backend_memory_contexts WHERE name LIKE 'shardlet%'" | tail -n 1)" "16"
