# What migrations do to tables that are distributed.
class ChangeTables < ActiveRecord::Migration[6.1]
  def change
    add_column :customers, :nickname, :string, limit: 50
    add_column :customers, :active, :boolean, null: false, default: true
    add_index :customers, [:tenant_id, :nickname], unique: true, name: "customers_nickname"
    remove_index :customers, column: :key, name: "customers_key"
    add_index :customers, :email, name: "customers_email", where: "active"
    rename_column :purchases, :date, :day
    reversible do |direction|
      direction.up { change_column :purchases, :amount, :decimal, precision: 12, scale: 2 }
      direction.down { change_column :purchases, :amount, :integer }
    end
    change_column_comment :purchases, :amount, from: nil, to: "in euros"
    create_table :notes, primary_key: [:tenant_id, :id] do |t|
      t.bigint :tenant_id, null: false
      t.bigserial :id, null: false
      t.bigint :purchase_id, null: false
      t.text :body
    end
    add_foreign_key :notes, :tenants
    reversible do |direction|
      direction.up do
        execute "SELECT shardlet.distribute('notes', 'tenants', 'tenant_id')"
        execute "ALTER TABLE notes ADD CONSTRAINT notes_purchase FOREIGN KEY (tenant_id, purchase_id) REFERENCES purchases ON DELETE CASCADE"
      end
    end
  end
end
