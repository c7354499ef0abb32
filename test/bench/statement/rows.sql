-- Rows of the shop for :customers customers, of those "c" for which :mine is true:
-- ten orders each, spread over a year in no order, and three items in each.
INSERT INTO customers SELECT c, 'customer ' || c, (ARRAY['north', 'south', 'east', 'west'])[1 + c % 4]
	FROM generate_series(1::bigint, :customers) c WHERE :mine;
INSERT INTO orders SELECT c, o, timestamptz '2026-01-01' + (c * 7919 + o * 104729) % 31536000 * interval '1 second',
	(ARRAY['new', 'paid', 'sent', 'done', 'void'])[1 + (c + o) % 5], (c * 31 + o * 17) % 100000 / 100.0
	FROM generate_series(1::bigint, :customers) c, generate_series(1, 10) o WHERE :mine;
INSERT INTO items SELECT c, o, l, 1 + (c * 13 + o * 7 + l * 101) % 1000, 1 + (c + o + l) % 9, (c * 3 + o * 5 + l * 11) % 9000 / 100.0
	FROM generate_series(1::bigint, :customers) c, generate_series(1, 10) o, generate_series(1, 3) l WHERE :mine;
